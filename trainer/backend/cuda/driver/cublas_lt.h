// Products by cuBLASLt, which is loaded by name.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"

namespace trainyard::engine::cuda {

// The functions of cuBLASLt that are called here.
struct CublasLtFunctions {
  decltype(cublasLtCreate)* create = nullptr;
  decltype(cublasLtDestroy)* destroy = nullptr;
  decltype(cublasLtGetStatusString)* status_string = nullptr;
  decltype(cublasLtMatmulDescCreate)* operation_create = nullptr;
  decltype(cublasLtMatmulDescDestroy)* operation_destroy = nullptr;
  decltype(cublasLtMatmulDescSetAttribute)* operation_set = nullptr;
  decltype(cublasLtMatrixLayoutCreate)* layout_create = nullptr;
  decltype(cublasLtMatrixLayoutDestroy)* layout_destroy = nullptr;
  decltype(cublasLtMatmulPreferenceCreate)* preference_create = nullptr;
  decltype(cublasLtMatmulPreferenceDestroy)* preference_destroy = nullptr;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set = nullptr;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic = nullptr;
  decltype(cublasLtMatmul)* matmul = nullptr;
};

// Unavailable where there is none, or one of another version.
absl::StatusOr<CublasLtFunctions> LoadCublasLt();

// For one device and one stream; outlives its plans. The stream's work shares one workspace.
class CublasLt {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  // On the current device. `workspace` has kWorkspaceBytes.
  static absl::StatusOr<std::unique_ptr<CublasLt>> Create(void* workspace, cudaStream_t stream);
  ~CublasLt();

  absl::StatusOr<std::unique_ptr<ProductPlan>> Plan(const ProductShape& shape) const;

 private:
  class Product;
  CublasLt(const CublasLtFunctions& functions, cublasLtHandle_t handle, void* workspace, cudaStream_t stream);

  const CublasLtFunctions functions_;
  const cublasLtHandle_t handle_;
  void* const workspace_;
  const cudaStream_t stream_;
};

}  // namespace trainyard::engine::cuda
