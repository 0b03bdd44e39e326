#include "trainer/model/build_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/graph/prune.h"
#include "trainer/ops/builder.h"
#include "trainer/tensor/pixel_scale.h"

namespace trainyard::engine {
namespace {

// The layers without loss.
struct Network {
  Value output;
  LayerResults results;
};

// Adds the input and the layers of a spec to a graph, one after the other.
class NetworkBuilder {
 public:
  NetworkBuilder(const ModelSpec& spec, GraphBuilder& graph) : spec_(spec), graph_(graph) {}

  absl::Status AddInput(int64_t batch) {
    const Shape& example = spec_.input_shape;
    TY_RETURN_IF_ERROR(CheckElements("the input", Product(example.extents())));
    std::vector<int64_t> extents{batch};
    extents.insert(extents.end(), example.extents().begin(), example.extents().end());
    if (spec_.vocabulary > 0) {
      TY_ASSIGN_OR_RETURN(values_[kInputName], graph_.IntegerInput(kInputName, Shape(extents), static_cast<int32_t>(spec_.vocabulary)));
    } else {
      TY_ASSIGN_OR_RETURN(values_[kInputName], graph_.Input(kInputName, Shape(extents), kPixelScale));
    }
    return absl::OkStatus();
  }

  absl::Status Add(const LayerSpec& layer) {
    std::vector<Value> inputs;
    for (const std::string& input : layer.inputs) {
      const auto found = values_.find(input);
      if (found == values_.end()) return absl::InvalidArgumentError(fmt::format("input \"{}\" is not a layer before this one", input));
      inputs.push_back(found->second);
    }
    if (inputs.empty()) return absl::InvalidArgumentError("the layer has no input");
    if (inputs.size() > 1 && !layer.layer->takes_several_inputs()) {
      return absl::InvalidArgumentError(fmt::format("found {} inputs, expected 1; only add takes several", inputs.size()));
    }
    const bool last = &layer == &spec_.layers.back();
    LayerBuilder builder(graph_, network_.results, layer.name, std::move(inputs), last && spec_.loss == Loss::kSoftmaxCrossEntropy);
    TY_ASSIGN_OR_RETURN(const Value value, layer.layer->Build(builder));
    TY_RETURN_IF_ERROR(CheckElements("the output of one example", Product(graph_.spec(value).shape.extents().subspan(1))));
    values_[layer.name] = value;
    network_.output = value;
    return absl::OkStatus();
  }

  Network Finish() && { return std::move(network_); }

 private:
  const ModelSpec& spec_;
  GraphBuilder& graph_;
  std::map<std::string, Value, std::less<>> values_;
  Network network_;
};

// The network without loss; without an output after adding an error.
Network BuildLayers(const ModelSpec& spec, int64_t batch, GraphBuilder& builder, FieldErrors& errors) {
  TY_CHECK(batch >= 1 && batch <= kMaxBatch);
  NetworkBuilder layers(spec, builder);
  if (const absl::Status status = layers.AddInput(batch); !status.ok()) {
    errors.Add(spec.path + ".input.shape", std::string(status.message()));
    return {};
  }
  for (const LayerSpec& layer : spec.layers) {
    const absl::Status status = layers.Add(layer);
    if (status.ok()) continue;
    errors.Add(layer.path, std::string(status.message()));
    return {};
  }
  return std::move(layers).Finish();
}

absl::StatusOr<Network> BuildLayers(const ModelSpec& spec, int64_t batch, GraphBuilder& builder) {
  FieldErrors errors;
  Network network = BuildLayers(spec, batch, builder, errors);
  TY_RETURN_IF_ERROR(errors.ToStatus("model"));
  return network;
}

// Adds the penalties on weights to `loss`, called kDataLoss where there are any. The sum is the
// output kLossOutput.
constexpr std::string_view kDataLoss = "loss/data";

std::string_view LossNode(const Network& network) { return network.results.penalties.empty() ? kLossOutput : kDataLoss; }

absl::Status FinishLoss(const Network& network, Value loss, GraphBuilder& builder) {
  size_t left = network.results.penalties.size();
  for (const auto& [l2, weights] : network.results.penalties) {
    const std::string name = --left == 0 ? std::string(kLossOutput) : fmt::format("loss/l2_{}", left);
    TY_ASSIGN_OR_RETURN(loss, builder.L2Penalty(name, loss, weights, l2));
  }
  return builder.Output(kLossOutput, loss);
}

// Adds the loss and, but for training, the metrics beside it.
absl::Status AddLoss(const ModelSpec& spec, const Network& network, bool training, GraphBuilder& builder) {
  const Value output = network.output;
  const Shape shape = builder.spec(output).shape;
  if (spec.loss == Loss::kMeanSquaredError) {
    TY_ASSIGN_OR_RETURN(Value target, builder.Input(kTargetFeed, shape));
    TY_ASSIGN_OR_RETURN(Value loss, builder.MeanSquaredError(LossNode(network), output, target));
    TY_RETURN_IF_ERROR(FinishLoss(network, loss, builder));
    return builder.Output(kPredictionOutput, output);
  }
  const Shape label_shape(shape.extents().first(shape.rank() - 1));
  TY_ASSIGN_OR_RETURN(Value labels, builder.IntegerInput(kLabelsFeed, label_shape, static_cast<int32_t>(shape[-1])));
  TY_ASSIGN_OR_RETURN(Value loss, builder.SoftmaxCrossEntropy(LossNode(network), output, labels));
  TY_RETURN_IF_ERROR(FinishLoss(network, loss, builder));
  if (!training) {
    TY_ASSIGN_OR_RETURN(Value correct, builder.CorrectCount(kCorrectOutput, output, labels));
    TY_RETURN_IF_ERROR(builder.Output(kCorrectOutput, correct));
    if (shape.rank() == 2) TY_RETURN_IF_ERROR(builder.Output(kLogitsOutput, output));
  }
  return absl::OkStatus();
}

// `training`: with the mark of the loss that training makes small, and the next values of
// parameters that are not trainable.
absl::StatusOr<Graph> BuildWithLoss(const ModelSpec& spec, int64_t batch, bool training) {
  GraphBuilder builder;
  TY_ASSIGN_OR_RETURN(const Network network, BuildLayers(spec, batch, builder));
  TY_RETURN_IF_ERROR(AddLoss(spec, network, training, builder));
  if (training) {
    builder.Loss(builder.graph().outputs().find(kLossOutput)->second);
    for (const LayerResults::NextValue& next : network.results.next_values)
      TY_RETURN_IF_ERROR(builder.NextValue(next.parameter, next.value));
  }
  return std::move(builder).Build();
}

// Whether the output may be a sequence, with a label for each step: the network has a layer that
// reads one.
bool ReadsSequences(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return std::holds_alternative<EmbeddingOp>(node.op) || std::holds_alternative<RecurrentOp>(node.op);
  });
}

}  // namespace

absl::StatusOr<Graph> BuildTrainingGraph(const ModelSpec& spec, int64_t batch) { return BuildWithLoss(spec, batch, /*training=*/true); }

absl::StatusOr<Graph> BuildEvaluationGraph(const ModelSpec& spec, int64_t batch) { return BuildWithLoss(spec, batch, /*training=*/false); }

absl::StatusOr<Graph> BuildInferenceGraph(const ModelSpec& spec, int64_t batch) {
  GraphBuilder builder;
  TY_ASSIGN_OR_RETURN(const Network network, BuildLayers(spec, batch, builder));
  if (spec.loss == Loss::kMeanSquaredError) {
    TY_RETURN_IF_ERROR(builder.Output(kPredictionOutput, network.output));
  } else {
    TY_ASSIGN_OR_RETURN(Value probabilities, builder.Softmax(kProbabilitiesOutput, network.output));
    TY_RETURN_IF_ERROR(builder.Output(kLogitsOutput, network.output));
    TY_RETURN_IF_ERROR(builder.Output(kProbabilitiesOutput, probabilities));
  }
  return std::move(builder).Build();
}

absl::StatusOr<Graph> BuildReadingGraph(const ModelSpec& spec, int64_t batch) {
  GraphBuilder builder;
  TY_RETURN_IF_ERROR(BuildLayers(spec, batch, builder).status());
  return WithoutUnneeded(std::move(builder).Build());
}

absl::StatusOr<std::vector<ParameterSpec>> ParameterSpecsOf(const ModelSpec& spec) {
  GraphBuilder builder;
  TY_RETURN_IF_ERROR(BuildLayers(spec, 1, builder).status());
  const auto parameters = builder.graph().parameters();
  return std::vector<ParameterSpec>(parameters.begin(), parameters.end());
}

absl::StatusOr<std::vector<StartValue>> StartValuesOf(const ModelSpec& spec) {
  GraphBuilder builder;
  TY_ASSIGN_OR_RETURN(Network network, BuildLayers(spec, 1, builder));
  return std::move(network.results.starts);
}

absl::StatusOr<Shape> OutputShapeOf(const ModelSpec& spec) {
  GraphBuilder builder;
  TY_ASSIGN_OR_RETURN(const Network network, BuildLayers(spec, 1, builder));
  return Shape(builder.spec(network.output).shape.extents().subspan(1));
}

absl::StatusOr<int> ClassCountOf(const ModelSpec& spec) {
  if (spec.loss != Loss::kSoftmaxCrossEntropy) return 0;
  TY_ASSIGN_OR_RETURN(const Shape shape, OutputShapeOf(spec));
  return static_cast<int>(shape[-1]);
}

void CheckModelShapes(const ModelSpec& spec, FieldErrors& errors) {
  GraphBuilder builder;
  const Network network = BuildLayers(spec, 1, builder, errors);
  if (!network.output.valid()) return;
  const Shape shape = builder.spec(network.output).shape;
  const bool sequence = shape.rank() == 3 && ReadsSequences(builder.graph());
  if (spec.loss == Loss::kSoftmaxCrossEntropy && shape.rank() != 2 && !sequence) {
    errors.Add(spec.layers.back().path, fmt::format("the last layer gives {} for each example, softmaxCrossEntropy takes [classes]",
                                                    Shape(shape.extents().subspan(1)).ToString()));
    return;
  }
  if (const absl::Status status = AddLoss(spec, network, /*training=*/false, builder); !status.ok())
    errors.Add(spec.layers.back().path, std::string(status.message()));
}

}  // namespace trainyard::engine
