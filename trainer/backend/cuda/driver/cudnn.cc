#include "trainer/backend/cuda/driver/cudnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/backend/cuda/driver/cudnn_operation.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/devices/shared_library.h"

namespace trainyard::engine::cuda {
absl::StatusOr<CudnnFunctions> LoadCudnn() {
  // cuDNN's engines that compile at run time take this library if it is there already. By
  // themselves they look in cuDNN's folder only. Without it cuDNN has its other engines.
  const absl::StatusOr<SharedLibrary> nvrtc = SharedLibrary::Open(fmt::format("libnvrtc.so.{}", CUDART_VERSION / 1000));
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

namespace {

constexpr size_t kWorkspaceAlignment = 256;

absl::Status DnnStatus(const CudnnFunctions& f, cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(fmt::format("{}: {}", call, f.error_string(status)));
}

// Whether an engine promises too little: the same bits every time, and the precision of `shape`.
bool Refused(CudnnDescriptor& config, const CudnnFunctions& f, const ConvolutionShape& shape) {
  CudnnDescriptor engine(f, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine");
  cudnnBackendDescriptor_t place = engine.get();
  config.Get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(&place, 1));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const int64_t count =
      engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span<cudnnBackendNumericalNote_t>(notes));
  if (!config.status().ok() || !engine.status().ok()) return true;
  return std::any_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) return true;
    if (note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) return shape.takes == Element::kFloat32;
    return note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && shape.takes == Element::kFloat32 && !shape.tf32;
  });
}

// Of engines that may run the graph, the best first.
std::vector<CudnnDescriptor> ConfigsOf(const CudnnFunctions& f, const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristic(f, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "a convolution's heuristic");
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode).Finalize();
  std::vector<CudnnDescriptor> configs;
  std::array<cudnnBackendDescriptor_t, 24> places{};
  for (cudnnBackendDescriptor_t& place : places) {
    configs.emplace_back(f, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine's configuration");
    place = configs.back().get();
  }
  const int64_t count =
      heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span<cudnnBackendDescriptor_t>(places));
  if (!heuristic.status().ok()) LogInfo("cuDNN does not take a convolution: {}", heuristic.status().ToString());
  while (std::cmp_greater(configs.size(), count)) configs.pop_back();
  return configs;
}

class CudnnConvolution final : public ConvolutionPlan {
 public:
  CudnnConvolution(const Cudnn& cudnn, ConvolutionPart part, CudnnOperation operation, CudnnDescriptor graph, CudnnDescriptor config,
                   CudnnDescriptor plan, int64_t workspace_bytes)
      : cudnn_(cudnn),
        part_(part),
        operation_(std::move(operation)),
        graph_(std::move(graph)),
        config_(std::move(config)),
        plan_(std::move(plan)),
        workspace_bytes_(static_cast<size_t>(workspace_bytes)) {}

  size_t workspace_bytes() const override { return workspace_bytes_ == 0 ? 0 : workspace_bytes_ + kWorkspaceAlignment; }

  absl::Status Run(const void* x, const void* w, const void* z, void* made, void* workspace) override {
    const CudnnFunctions& f = cudnn_.functions();
    const std::array<int64_t, 3> ids = {CudnnOperation::kX, CudnnOperation::kW, CudnnOperation::kZ};
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
  CudnnOperation operation_;  // what the plan is made of, until the plan's end
  CudnnDescriptor graph_;
  CudnnDescriptor config_;
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
  CudnnOperation operation(f, shape);
  CudnnDescriptor graph(f, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a convolution's graph");
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation.operation)
      .Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_)
      .Finalize();
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (CudnnDescriptor& config : ConfigsOf(f, graph, mode)) {
      if (Refused(config, f, shape)) continue;
      CudnnDescriptor plan(f, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a convolution's plan");
      plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle_)
          .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
          .Finalize();
      int64_t bytes = 0;
      plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::span(&bytes, 1));
      if (!plan.status().ok() || bytes > kMostWorkspaceBytes) continue;  // the next may take it
      return std::make_unique<CudnnConvolution>(*this, shape.part, std::move(operation), std::move(graph), std::move(config),
                                                std::move(plan), bytes);
    }
  }
  return nullptr;
}

}  // namespace trainyard::engine::cuda
