// Convolutions by cuDNN 9, which is loaded by name. Graphs of one operation, by the C API of
// cuDNN's backend: NVIDIA, "cuDNN Backend API".
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"

namespace trainyard::engine::cuda {

// The functions of cuDNN that are called here.
struct CudnnFunctions {
  decltype(cudnnCreate)* create = nullptr;
  decltype(cudnnDestroy)* destroy = nullptr;
  decltype(cudnnSetStream)* set_stream = nullptr;
  decltype(cudnnGetErrorString)* error_string = nullptr;
  decltype(cudnnBackendCreateDescriptor)* descriptor_create = nullptr;
  decltype(cudnnBackendDestroyDescriptor)* descriptor_destroy = nullptr;
  decltype(cudnnBackendSetAttribute)* descriptor_set = nullptr;
  decltype(cudnnBackendGetAttribute)* descriptor_get = nullptr;
  decltype(cudnnBackendFinalize)* descriptor_finalize = nullptr;
  decltype(cudnnBackendExecute)* execute = nullptr;
};

// Unavailable where there is none, or one of another version.
absl::StatusOr<CudnnFunctions> LoadCudnn();

// For one device and one stream; outlives its plans.
class Cudnn {
 public:
  // A plan that wants more is not taken.
  static constexpr int64_t kMostWorkspaceBytes = int64_t{512} << 20;

  // On the current device. Unavailable where there is no cuDNN.
  static absl::StatusOr<std::unique_ptr<Cudnn>> Create(cudaStream_t stream);
  ~Cudnn();

  // Of deterministic engines, and in f32 of those that round no operand, the heuristic's first that
  // takes the shape. Null where there is none.
  absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Plan(const ConvolutionShape& shape) const;

  const CudnnFunctions& functions() const { return functions_; }
  cudnnHandle_t handle() const { return handle_; }

 private:
  Cudnn(const CudnnFunctions& functions, cudnnHandle_t handle) : functions_(functions), handle_(handle) {}

  const CudnnFunctions functions_;
  const cudnnHandle_t handle_;
};

}  // namespace trainyard::engine::cuda
