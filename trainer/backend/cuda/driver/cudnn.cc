#include "trainer/backend/cuda/driver/cudnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/backend/cuda/driver/cudnn_descriptor.h"
#include "trainer/backend/cuda/driver/shared_library.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {
namespace {

constexpr int64_t kX = 1, kW = 2, kZ = 3;  // unique ids of the tensors
constexpr size_t kWorkspaceAlignment = 256;

absl::StatusOr<CudnnFunctions> LoadCudnn() {
  TY_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open(fmt::format("libcudnn.so.{}", CUDNN_MAJOR)));
  CudnnFunctions f;
  TY_RETURN_IF_ERROR(library.Find("cudnnCreate", f.create));
  TY_RETURN_IF_ERROR(library.Find("cudnnDestroy", f.destroy));
  TY_RETURN_IF_ERROR(library.Find("cudnnSetStream", f.set_stream));
  TY_RETURN_IF_ERROR(library.Find("cudnnGetErrorString", f.error_string));
  TY_RETURN_IF_ERROR(library.Find("cudnnBackendCreateDescriptor", f.descriptor_create));
  TY_RETURN_IF_ERROR(library.Find("cudnnBackendDestroyDescriptor", f.descriptor_destroy));
  TY_RETURN_IF_ERROR(library.Find("cudnnBackendSetAttribute", f.descriptor_set));
  TY_RETURN_IF_ERROR(library.Find("cudnnBackendGetAttribute", f.descriptor_get));
  TY_RETURN_IF_ERROR(library.Find("cudnnBackendFinalize", f.descriptor_finalize));
  TY_RETURN_IF_ERROR(library.Find("cudnnBackendExecute", f.execute));
  return f;
}

absl::Status DnnStatus(const CudnnFunctions& f, cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(fmt::format("{}: {}", call, f.error_string(status)));
}

// cuDNN names the extents N, C, H, W; the strides say that C lies innermost.
CudnnDescriptor Tensor4d(const CudnnFunctions& f, int64_t id, cudnnDataType_t type, int64_t n, int64_t c, int64_t h, int64_t w) {
  const std::array<int64_t, 4> extents = {n, c, h, w};
  const std::array<int64_t, 4> strides = {c * h * w, 1, w * c, c};
  CudnnDescriptor tensor(f, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const int64_t>(extents))
      .Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(strides))
      .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{kMostAlignment});
  return std::move(tensor.Finalize());
}

CudnnDescriptor WindowOf(const CudnnFunctions& f, const WindowPlace& window) {
  std::array<int64_t, 2> before{}, after{}, strides{}, dilations = {1, 1};
  for (int axis = 0; axis < 2; ++axis) {
    strides[axis] = window.stride[axis];
    before[axis] = window.pad[axis];
    // So far that the last window fits; a valid window may leave input over, which needs none.
    const int64_t end = int64_t{window.out[axis] - 1} * window.stride[axis] + window.size[axis];
    after[axis] = std::max<int64_t>(0, end - window.in[axis] - window.pad[axis]);
  }
  CudnnDescriptor convolution(f, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "a convolution");
  convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2})
      .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, std::span<const int64_t>(before))
      .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, std::span<const int64_t>(after))
      .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, std::span<const int64_t>(dilations))
      .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(strides));
  return std::move(convolution.Finalize());
}

// The names of one operation's attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t window, x, w, z, alpha, beta;
};

OperationNames NamesOf(ConvolutionPart part) {
  switch (part) {
    case ConvolutionPart::kOutput:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionPart::kInputGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionPart::kWeightGradient:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

// Whether an engine promises too little: the same bits every time, and f32 as f32.
bool Refused(CudnnDescriptor& config, const CudnnFunctions& f, bool bfloat16) {
  CudnnDescriptor engine(f, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine");
  cudnnBackendDescriptor_t place = engine.get();
  config.Get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(&place, 1));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const int64_t count =
      engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span<cudnnBackendNumericalNote_t>(notes));
  if (!config.status().ok() || !engine.status().ok()) return true;
  return std::any_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) return true;
    return !bfloat16 && (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  });
}

class CudnnConvolution final : public ConvolutionPlan {
 public:
  CudnnConvolution(const Cudnn& cudnn, ConvolutionPart part, CudnnDescriptor plan, int64_t workspace_bytes)
      : cudnn_(cudnn), part_(part), plan_(std::move(plan)), workspace_bytes_(static_cast<size_t>(workspace_bytes)) {}

  size_t workspace_bytes() const override { return workspace_bytes_ == 0 ? 0 : workspace_bytes_ + kWorkspaceAlignment; }

  absl::Status Run(const void* x, const void* w, const void* z, float* made, void* workspace) override {
    const CudnnFunctions& f = cudnn_.functions();
    const std::array<int64_t, 3> ids = {kX, kW, kZ};
    const std::array<const void*, 3> data = {part_ == ConvolutionPart::kInputGradient ? made : x,
                                             part_ == ConvolutionPart::kWeightGradient ? made : w,
                                             part_ == ConvolutionPart::kOutput ? made : z};
    if (workspace_bytes_ == 0) workspace = nullptr;
    const auto address = (reinterpret_cast<uintptr_t>(workspace) + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    void* const aligned = reinterpret_cast<void*>(address);
    if (pack_.has_value() && data == data_ && workspace == workspace_) return Execute();
    CudnnDescriptor& pack = pack_.emplace(f, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "the tensors of a convolution");
    pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const int64_t>(ids))
        .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<const void* const>(data))
        .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, aligned)
        .Finalize();
    data_ = data;
    workspace_ = workspace;
    return Execute();
  }

 private:
  absl::Status Execute() const {
    TY_RETURN_IF_ERROR(pack_->status());
    return DnnStatus(cudnn_.functions(), cudnn_.functions().execute(cudnn_.handle(), plan_.get(), pack_->get()), "cudnnBackendExecute");
  }

  const Cudnn& cudnn_;
  const ConvolutionPart part_;
  CudnnDescriptor plan_;
  const size_t workspace_bytes_;
  std::optional<CudnnDescriptor> pack_;  // of the pointers below: an executor gives the same in every step
  std::array<const void*, 3> data_{};
  void* workspace_ = nullptr;
};

}  // namespace

Cudnn::~Cudnn() { functions_.destroy(handle_); }

absl::StatusOr<std::unique_ptr<Cudnn>> Cudnn::Create(cudaStream_t stream) {
  TY_ASSIGN_OR_RETURN(const CudnnFunctions functions, LoadCudnn());
  cudnnHandle_t handle = nullptr;
  TY_RETURN_IF_ERROR(DnnStatus(functions, functions.create(&handle), "cudnnCreate"));
  std::unique_ptr<Cudnn> cudnn(new Cudnn(functions, handle));
  TY_RETURN_IF_ERROR(DnnStatus(functions, functions.set_stream(handle, stream), "cudnnSetStream"));
  return cudnn;
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Cudnn::Plan(const ConvolutionShape& shape) const {
  const CudnnFunctions& f = functions_;
  const ConvolutionSizes& n = shape.sizes;
  const WindowPlace& window = n.window;
  const OperationNames names = NamesOf(shape.part);
  const cudnnDataType_t in = shape.bfloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  const auto type = [&](ConvolutionPart made_by) { return shape.part == made_by ? CUDNN_DATA_FLOAT : in; };
  const CudnnDescriptor x = Tensor4d(f, kX, type(ConvolutionPart::kInputGradient), n.samples, window.channels, window.in[0], window.in[1]);
  const CudnnDescriptor w =
      Tensor4d(f, kW, type(ConvolutionPart::kWeightGradient), n.filters, window.channels, window.size[0], window.size[1]);
  const CudnnDescriptor z = Tensor4d(f, kZ, type(ConvolutionPart::kOutput), n.samples, n.filters, window.out[0], window.out[1]);
  const CudnnDescriptor convolution = WindowOf(f, window);
  CudnnDescriptor operation(f, names.type, "a convolution's operation");
  operation.Set(names.window, convolution)
      .Set(names.x, x)
      .Set(names.w, w)
      .Set(names.z, z)
      .Set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f)
      .Set(names.beta, CUDNN_TYPE_FLOAT, 0.0f)
      .Finalize();
  CudnnDescriptor graph(f, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a convolution's graph");
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation).Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_).Finalize();
  CudnnDescriptor heuristic(f, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "a convolution's heuristic");
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A)
      .Finalize();
  std::vector<CudnnDescriptor> configs;
  std::array<cudnnBackendDescriptor_t, 16> places{};
  for (cudnnBackendDescriptor_t& place : places) {
    configs.emplace_back(f, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine's configuration");
    place = configs.back().get();
  }
  const int64_t count =
      heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span<cudnnBackendDescriptor_t>(places));
  if (!heuristic.status().ok()) LogInfo("cuDNN does not take a convolution, so it runs as a product: {}", heuristic.status().ToString());
  for (int64_t i = 0; i < count; ++i) {
    if (Refused(configs[i], f, shape.bfloat16)) continue;
    CudnnDescriptor plan(f, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a convolution's plan");
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle_)
        .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i])
        .Finalize();
    int64_t bytes = 0;
    plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::span(&bytes, 1));
    if (!plan.status().ok() || bytes > kMostWorkspaceBytes) continue;  // the next may take it
    return std::make_unique<CudnnConvolution>(*this, shape.part, std::move(plan), bytes);
  }
  return nullptr;
}

}  // namespace trainyard::engine::cuda
