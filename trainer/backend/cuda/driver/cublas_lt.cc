#include "trainer/backend/cuda/driver/cublas_lt.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/devices/shared_library.h"

namespace trainyard::engine::cuda {
absl::StatusOr<CublasLtFunctions> LoadCublasLt() {
  TY_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR)));
  CublasLtFunctions f;
  TY_RETURN_IF_ERROR(library.Find("cublasLtCreate", f.create));
  TY_RETURN_IF_ERROR(library.Find("cublasLtDestroy", f.destroy));
  TY_RETURN_IF_ERROR(library.Find("cublasLtGetStatusString", f.status_string));
  TY_RETURN_IF_ERROR(library.Find("cublasLtMatmulDescCreate", f.operation_create));
  TY_RETURN_IF_ERROR(library.Find("cublasLtMatmulDescDestroy", f.operation_destroy));
  TY_RETURN_IF_ERROR(library.Find("cublasLtMatmulDescSetAttribute", f.operation_set));
  TY_RETURN_IF_ERROR(library.Find("cublasLtMatrixLayoutCreate", f.layout_create));
  TY_RETURN_IF_ERROR(library.Find("cublasLtMatrixLayoutDestroy", f.layout_destroy));
  TY_RETURN_IF_ERROR(library.Find("cublasLtMatmulPreferenceCreate", f.preference_create));
  TY_RETURN_IF_ERROR(library.Find("cublasLtMatmulPreferenceDestroy", f.preference_destroy));
  TY_RETURN_IF_ERROR(library.Find("cublasLtMatmulPreferenceSetAttribute", f.preference_set));
  TY_RETURN_IF_ERROR(library.Find("cublasLtMatmulAlgoGetHeuristic", f.heuristic));
  TY_RETURN_IF_ERROR(library.Find("cublasLtMatmul", f.matmul));
  return f;
}

namespace {

absl::Status LtStatus(const CublasLtFunctions& f, cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(fmt::format("{}: {}", call, f.status_string(status)));
}

cudaDataType_t TypeOf(Element element) {
  if (element == Element::kBfloat16) return CUDA_R_16BF;
  return element == Element::kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}

}  // namespace

class CublasLt::Product final : public ProductPlan {
 public:
  explicit Product(const CublasLt& lt) : lt_(lt) {}
  ~Product() override {
    const CublasLtFunctions& f = lt_.functions_;
    if (operation_ != nullptr) f.operation_destroy(operation_);
    for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
      if (layout != nullptr) f.layout_destroy(layout);
    }
  }

  absl::Status Prepare(const ProductShape& shape) {
    const CublasLtFunctions& f = lt_.functions_;
    const BlasProduct blas = ColumnMajor(shape);
    const cudaDataType_t type = TypeOf(shape.takes);
    beta_ = shape.onto ? 1.0f : 0.0f;
    TY_RETURN_IF_ERROR(LtStatus(f,
                                f.operation_create(&operation_, shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
                                "cublasLtMatmulDescCreate"));
    TY_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_TRANSA, blas.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N));
    TY_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_TRANSB, blas.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N));
    if (shape.bias) {
      TY_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
      // The heuristic wants an address where the bias will be; any will do.
      TY_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(lt_.workspace_)));
    }
    TY_RETURN_IF_ERROR(LtStatus(f, f.layout_create(&a_, type, blas.a_rows(), blas.a_columns(), blas.lda), "cublasLtMatrixLayoutCreate"));
    TY_RETURN_IF_ERROR(LtStatus(f, f.layout_create(&b_, type, blas.b_rows(), blas.b_columns(), blas.ldb), "cublasLtMatrixLayoutCreate"));
    const cudaDataType_t made = TypeOf(shape.makes);
    TY_RETURN_IF_ERROR(LtStatus(f, f.layout_create(&c_, made, blas.rows, blas.columns, blas.ldc), "cublasLtMatrixLayoutCreate"));
    return Choose(shape);
  }

  // Only the bias's address changes; setting it is work of the host.
  absl::Status Run(const void* a, const void* b, void* c, const float* bias) override {
    const CublasLtFunctions& f = lt_.functions_;
    if (bias != nullptr) TY_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias)));
    const float alpha = 1.0f;
    return LtStatus(f,
                    f.matmul(lt_.handle_, operation_, &alpha, b, a_, a, b_, &beta_, c, c_, c, c_, &algorithm_, lt_.workspace_,
                             kWorkspaceBytes, lt_.stream_),
                    "cublasLtMatmul");
  }

 private:
  template <typename T>
  absl::Status Set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return LtStatus(lt_.functions_, lt_.functions_.operation_set(operation_, attribute, static_cast<const void*>(&value), sizeof value),
                    "cublasLtMatmulDescSetAttribute");
  }

  absl::Status Choose(const ProductShape& shape) {
    const CublasLtFunctions& f = lt_.functions_;
    cublasLtMatmulPreference_t preference = nullptr;
    TY_RETURN_IF_ERROR(LtStatus(f, f.preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
    const uint64_t workspace = kWorkspaceBytes;
    const auto alignment = static_cast<uint32_t>(shape.alignment);
    cublasStatus_t status = f.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                 CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      if (status == CUBLAS_STATUS_SUCCESS) status = f.preference_set(preference, attribute, &alignment, sizeof alignment);
    }
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    if (status == CUBLAS_STATUS_SUCCESS) status = f.heuristic(lt_.handle_, operation_, a_, b_, c_, c_, preference, 1, &best, &found);
    f.preference_destroy(preference);
    TY_RETURN_IF_ERROR(LtStatus(f, status, "cublasLtMatmulAlgoGetHeuristic"));
    if (found == 0) {
      return absl::UnimplementedError(fmt::format("cuBLASLt has no way to multiply [{}, {}] by [{}, {}]{}", shape.m, shape.k, shape.k,
                                                  shape.n, shape.takes == Element::kFloat32 ? "" : " of 16 bits"));
    }
    algorithm_ = best.algo;
    return absl::OkStatus();
  }

  const CublasLt& lt_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  float beta_ = 0.0f;
};

CublasLt::CublasLt(const CublasLtFunctions& functions, cublasLtHandle_t handle, void* workspace, cudaStream_t stream)
    : functions_(functions), handle_(handle), workspace_(workspace), stream_(stream) {}

CublasLt::~CublasLt() { functions_.destroy(handle_); }

absl::StatusOr<std::unique_ptr<CublasLt>> CublasLt::Create(void* workspace, cudaStream_t stream) {
  TY_ASSIGN_OR_RETURN(const CublasLtFunctions functions, LoadCublasLt());
  cublasLtHandle_t handle = nullptr;
  TY_RETURN_IF_ERROR(LtStatus(functions, functions.create(&handle), "cublasLtCreate"));
  return std::unique_ptr<CublasLt>(new CublasLt(functions, handle, workspace, stream));
}

absl::StatusOr<std::unique_ptr<ProductPlan>> CublasLt::Plan(const ProductShape& shape) const {
  auto product = std::make_unique<Product>(*this);
  TY_RETURN_IF_ERROR(product->Prepare(shape));
  return product;
}

}  // namespace trainyard::engine::cuda
