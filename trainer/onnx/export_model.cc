#include "trainer/onnx/export_model.h"

#include <fmt/format.h>

#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"
#include "trainer/onnx/export_op.h"
#include "trainyard_version.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 17;
constexpr int64_t kMostBytes = std::numeric_limits<int32_t>::max() - (int64_t{16} << 20);  // beside weights there is little

// Ops that no inference graph has. An op that is not here needs an ExportOp.
template <typename T, typename... Others>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Others> || ...);
template <typename T>
inline constexpr bool kIsOfTraining =
    kIsOneOf<T, LossScaleOp, RelayoutOp, SliceOp, EmbeddingGradientOp, RecurrentGradientOp, DenseInputGradientOp, DenseWeightGradientOp,
             Conv2dInputGradientOp, Conv2dWeightGradientOp, PooledConv2dWeightGradientOp, BiasGradientOp, ActivationGradientOp,
             MaxPoolGradientOp, AvgPoolGradientOp, SoftmaxGradientOp, SoftmaxCrossEntropyOp, SoftmaxCrossEntropyGradientOp, CorrectCountOp,
             DenseCrossEntropyOp, DenseCrossEntropyInputGradientOp, DenseCrossEntropyWeightGradientOp, MeanSquaredErrorOp,
             MeanSquaredErrorGradientOp, BatchNormGradientOp, L2PenaltyOp, L2PenaltyGradientOp>;

void ExportNode(NodeId id, GraphExport& out) {
  std::visit(
      [&]<typename T>(const T& op) {
        if constexpr (kIsOfTraining<T>) {
          TY_CHECK(false);
        } else {
          ExportOp(op, id, out);
        }
      },
      out.node(id).op);
}

// In the order of the file: what most programs take when they take the first.
std::vector<std::string> OutputsOf(const ModelSpec& spec) {
  if (spec.loss == Loss::kMeanSquaredError) return {std::string(kPredictionOutput)};
  return {std::string(kProbabilitiesOutput), std::string(kLogitsOutput)};
}

std::string NextName(const ParameterSpec& state) { return state.name + "_next"; }

onnx::GraphProto GraphOf(const ModelSpec& spec, const Graph& graph, const ParameterSet& parameters, const OnnxExportOptions& options) {
  std::vector<std::string> names = OutputsOf(spec);
  const size_t outputs = names.size();
  for (const ParameterSpec& state : graph.states()) names.push_back(NextName(state));
  GraphExport out(graph, parameters, options.transforms ? &*options.transforms : nullptr, names);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) ExportNode(id, out);
  for (size_t i = 0; i < outputs; ++i) {
    const Value value = graph.outputs().find(names[i])->second;
    if (options.label_scale) {
      out.AddLabelOutput(value, names[i], *options.label_scale);
    } else {
      out.AddOutput(value, names[i]);
    }
  }
  for (size_t i = outputs; i < names.size(); ++i) out.AddOutput(graph.next_states()[i - outputs], names[i]);
  return std::move(out.onnx()).Finish(spec.name);
}

}  // namespace

absl::StatusOr<std::string> OnnxModelOf(const ModelSpec& spec, const ParameterSet& parameters, const OnnxExportOptions& options) {
  if (options.transforms && spec.vocabulary > 0) {
    return absl::InvalidArgumentError(
        fmt::format("model '{}' reads tokens, which have no transforms; leave --with-transforms out", spec.name));
  }
  if (const int64_t bytes = BytesOf(parameters.specs()); bytes > kMostBytes) {
    return absl::InvalidArgumentError(fmt::format(
        "model '{}' has {} bytes of parameters, an ONNX file holds at most {}; take --format safetensors", spec.name, bytes, kMostBytes));
  }
  TY_ASSIGN_OR_RETURN(const Graph graph, BuildInferenceGraph(spec, /*batch=*/1));
  TY_CHECK(graph.parameters().size() == static_cast<size_t>(parameters.size()));
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("trainyard");
  model.set_producer_version(TRAINYARD_VERSION);
  model.add_opset_import()->set_version(kOpset);
  for (const auto& [key, value] : options.metadata) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  *model.mutable_graph() = GraphOf(spec, graph, parameters, options);
  return model.SerializeAsString();
}

}  // namespace trainyard::engine
