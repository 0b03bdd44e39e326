#include "trainer/backend/reference/reference_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "trainer/backend/narrow_values.h"
#include "trainer/backend/reference/kernels.h"
#include "trainer/backend/reference/rounded_operands.h"
#include "trainer/ops/fuse.h"

namespace trainyard::engine {
namespace {

class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(reference::RunFunction run) : run_(std::move(run)) {}
  void Run(const KernelContext& context) override { run_(context); }

 private:
  reference::RunFunction run_;
};

template <typename Out, typename In>
void ConvertTo(const In* in, int64_t elements, double scale, Out* out) {
  for (int64_t i = 0; i < elements; ++i) {
    out[i] = std::is_same_v<In, uint8_t> ? static_cast<Out>(in[i]) * static_cast<Out>(scale) : static_cast<Out>(in[i]);
  }
}

template <typename T>
constexpr bool kIsWeightGradient = std::is_same_v<T, DenseWeightGradientOp> || std::is_same_v<T, Conv2dWeightGradientOp>;

// Ops that multiply their first two inputs and do no more, but for an epilogue.
template <typename T>
constexpr bool kIsProduct = std::is_same_v<T, DenseOp> || std::is_same_v<T, DenseInputGradientOp> || std::is_same_v<T, Conv2dOp> ||
                            std::is_same_v<T, Conv2dInputGradientOp> || kIsWeightGradient<T>;

template <typename T>
class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(Precision precision) : precision_(precision) {}

  std::string_view name() const override { return std::is_same_v<T, float> ? "reference" : "reference-f64"; }
  std::string_view kernels() const override { return name(); }

  size_t BytesFor(const ValueSpec& spec) const override {
    return static_cast<size_t>(spec.shape.elements()) * (spec.dtype == DType::kF32 ? sizeof(T) : SizeOf(spec.dtype));
  }

  bool uses_host_memory() const override { return true; }
  DType real() const override { return std::is_same_v<T, float> ? DType::kF32 : DType::kF64; }
  Graph Rewrite(const Graph& forward, const RewriteOptions& options) const override {
    Graph graph = options.fuse ? FuseEpilogues(forward) : forward;
    return Narrows(precision_) ? NarrowValues(graph, NarrowReach::kDense) : graph;
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::string_view what, size_t bytes) override {
    return AllocateOnHost(what, bytes);
  }

  absl::StatusOr<std::unique_ptr<Kernel>> Compile(const Graph& graph, NodeId id, bool /*inference*/) override {
    const NodeView node(graph, id);
    return std::visit(
        [&](const auto& op) -> absl::StatusOr<std::unique_ptr<Kernel>> {
          using OpType = std::decay_t<decltype(op)>;
          if constexpr (kIsSource<OpType> || kIsAlias<OpType>) {
            return absl::UnimplementedError(fmt::format("node '{}': {} takes no kernel", node.node().name, OpName(node.node().op)));
          } else if constexpr (kIsOfCpu<OpType>) {
            return absl::UnimplementedError(
                fmt::format("node '{}': the reference backend has no kernel for op {}", node.node().name, OpName(node.node().op)));
          } else {
            reference::RunFunction run = MakeRun(op, node);
            if (node.out().narrow) run = reference::WithRoundedOutput<T>(std::move(run), node, precision_);
            return std::make_unique<FunctionKernel>(std::move(run));
          }
        },
        node.node().op);
  }

  void Upload(const ValueSpec& spec, float u8_scale, const Tensor& host, void* value) override {
    const int64_t elements = spec.shape.elements();
    if (host.dtype == DType::kU8 && spec.dtype == DType::kF32) {
      ConvertTo(static_cast<const uint8_t*>(host.data), elements, u8_scale, static_cast<T*>(value));
    } else if (spec.dtype == DType::kF32) {
      ConvertTo(static_cast<const float*>(host.data), elements, 1.0, static_cast<T*>(value));
    } else {
      std::memcpy(value, host.data, host.bytes());
    }
  }

  void Download(const ValueSpec& spec, const void* value, const Tensor& host) override {
    const int64_t elements = spec.shape.elements();
    if (spec.dtype != DType::kF32) {
      std::memcpy(host.data, value, host.bytes());
    } else if (host.dtype == DType::kF64) {
      ConvertTo(static_cast<const T*>(value), elements, 1.0, static_cast<double*>(host.data));
    } else {
      ConvertTo(static_cast<const T*>(value), elements, 1.0, static_cast<float*>(host.data));
    }
  }

 private:
  template <typename OpType>
  reference::RunFunction MakeRun(const OpType& op, const NodeView& node) const {
    if constexpr (requires { reference::MakeRun<T>(op, node, precision_); }) {
      return reference::MakeRun<T>(op, node, precision_);
    } else {
      reference::RunFunction run = reference::MakeRun<T>(op, node);
      if (!kIsProduct<OpType> || !Narrows(precision_)) return run;
      if (kIsWeightGradient<OpType>) return reference::WithRoundedOperandsButSums<T>(std::move(run), node, precision_);
      return reference::WithRoundedOperands<T>(std::move(run), node, precision_);
    }
  }

  const Precision precision_;
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend(DType math, Precision precision) {
  if (math == DType::kF64) return std::make_unique<ReferenceBackend<double>>(precision);
  return std::make_unique<ReferenceBackend<float>>(precision);
}

}  // namespace trainyard::engine
