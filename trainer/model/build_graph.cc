#include "trainer/model/build_graph.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/ops/builder.h"
#include "trainer/ops/fuse.h"
#include "trainer/ops/gradient.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

constexpr float kPixelScale = 1.0F / 255.0F;
// Of one example's activation and of one parameter: what keeps every product of extents far from overflow, and typing errors from swapping.
constexpr double kMaxElements = 1LL << 31;

Activation GraphActivation(LayerActivation activation) {
  switch (activation) {
    case LayerActivation::kTanh:
      return Activation::kTanh;
    case LayerActivation::kRelu:
      return Activation::kRelu;
    case LayerActivation::kSigmoid:
      return Activation::kSigmoid;
    case LayerActivation::kLinear:
    case LayerActivation::kSoftmax:
      return Activation::kIdentity;
  }
  return Activation::kIdentity;
}

absl::Status CheckElements(std::string_view what, double elements) {
  if (elements <= kMaxElements) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} would have {:.3g} elements, at most {:.3g} are allowed", what, elements, kMaxElements));
}

// What layers leave beside their output: what the loss and a training step are to do with some parameters.
struct Network {
  Value output;
  struct NextValue {
    Value parameter, value;
  };
  std::vector<NextValue> next_values;             // moving statistics
  std::map<float, std::vector<Value>> penalties;  // weights by l2
};

// Adds layers to a builder. `skip_last_softmax`: the loss applies softmax itself, so the last layer's is left out.
class LayerBuilder {
 public:
  LayerBuilder(GraphBuilder& builder, bool skip_last_softmax) : builder_(builder), skip_last_softmax_(skip_last_softmax) {}

  absl::Status AddInput(const Shape& example, int64_t vocabulary, int64_t batch) {
    TY_RETURN_IF_ERROR(CheckElements("the input", Product(example.extents())));
    std::vector<int64_t> extents{batch};
    extents.insert(extents.end(), example.extents().begin(), example.extents().end());
    if (vocabulary > 0) {
      TY_ASSIGN_OR_RETURN(values_[kInputName],
                          builder_.IntegerInput(kInputName, Shape(extents), static_cast<int32_t>(vocabulary), /*rows=*/true));
    } else {
      TY_ASSIGN_OR_RETURN(values_[kInputName], builder_.Input(kInputName, Shape(extents), kPixelScale));
    }
    return absl::OkStatus();
  }

  absl::Status Add(const LayerSpec& layer, bool last) {
    layer_ = &layer;
    softmax_allowed_ = !(last && skip_last_softmax_);
    inputs_.clear();
    for (const std::string& input : layer.inputs) {
      const auto found = values_.find(input);
      if (found == values_.end()) return absl::InvalidArgumentError(fmt::format("input \"{}\" is no layer before this one", input));
      inputs_.push_back(found->second);
    }
    if (inputs_.empty()) return absl::InvalidArgumentError("the layer has no input");
    if (inputs_.size() > 1 && !std::holds_alternative<AddLayer>(layer.kind)) {
      return absl::InvalidArgumentError(fmt::format("found {} inputs, expected 1; only add takes several", inputs_.size()));
    }
    TY_ASSIGN_OR_RETURN(Value value, std::visit([this](const auto& kind) { return Build(kind); }, layer.kind));
    TY_RETURN_IF_ERROR(CheckElements("the output of one example", Product(builder_.spec(value).shape.extents().subspan(1))));
    values_[layer.name] = value;
    network_.output = value;
    return absl::OkStatus();
  }

  const Network& network() const { return network_; }

 private:
  static double Product(std::span<const int64_t> extents) {
    double product = 1;
    for (const int64_t extent : extents) product *= static_cast<double>(extent);
    return product;
  }
  std::string Name(std::string_view part) const { return fmt::format("{}/{}", layer_->name, part); }
  // By value: adding nodes moves the graph's own.
  Shape InputShape() const { return builder_.spec(inputs_[0]).shape; }

  absl::StatusOr<Value> Kernel(const Shape& shape, const WeightsSpec& weights) {
    TY_RETURN_IF_ERROR(CheckElements("the kernel", Product(shape.extents())));
    TY_ASSIGN_OR_RETURN(const Value kernel, builder_.Parameter(Name("kernel"), shape));
    if (weights.kernel_l2 > 0) network_.penalties[static_cast<float>(weights.kernel_l2)].push_back(kernel);
    return kernel;
  }

  // Bias and activation of a product with `outputs` channels.
  absl::StatusOr<Value> Finish(Value product, int64_t outputs, bool use_bias, LayerActivation activation) {
    if (use_bias) {
      TY_ASSIGN_OR_RETURN(Value bias, builder_.Parameter(Name("bias"), Shape({outputs})));
      TY_ASSIGN_OR_RETURN(product, builder_.Bias(Name("bias_add"), product, bias));
    }
    return Activate(Name("activation"), product, activation);
  }

  absl::StatusOr<Value> Activate(const std::string& name, Value x, LayerActivation activation) {
    if (activation == LayerActivation::kLinear) return x;
    if (activation != LayerActivation::kSoftmax) return builder_.Activate(name, x, GraphActivation(activation));
    if (!softmax_allowed_) return x;
    return builder_.Softmax(name, x);
  }

  absl::StatusOr<Value> Build(const Conv2dLayer& conv) {
    const Shape input = InputShape();
    if (input.rank() != 4) return WrongRank("conv2d", "[height, width, channels]");
    TY_ASSIGN_OR_RETURN(Value kernel, Kernel(Shape({conv.window.size[0], conv.window.size[1], input[3], conv.filters}), conv.weights));
    TY_ASSIGN_OR_RETURN(const Value x, InPanels());
    TY_ASSIGN_OR_RETURN(Value product, builder_.Conv2d(layer_->name, x, kernel, conv.window.stride, conv.window.padding));
    return Finish(product, conv.filters, conv.weights.use_bias, conv.activation);
  }
  absl::StatusOr<Value> Build(const DenseLayer& dense) {
    const Shape input = InputShape();
    if (input.rank() < 2) return WrongRank("dense", "[features]");
    TY_ASSIGN_OR_RETURN(Value kernel, Kernel(Shape({input[-1], dense.units}), dense.weights));
    TY_ASSIGN_OR_RETURN(Value product, builder_.Dense(layer_->name, inputs_[0], kernel));
    return Finish(product, dense.units, dense.weights.use_bias, dense.activation);
  }
  absl::StatusOr<Value> Build(const MaxPool2dLayer& pool) {
    if (InputShape().rank() != 4) return WrongRank("maxPool2d", "[height, width, channels]");
    TY_ASSIGN_OR_RETURN(const Value x, InPanels());
    return builder_.MaxPool(layer_->name, x, pool.window);
  }
  absl::StatusOr<Value> Build(const AvgPool2dLayer& pool) {
    if (InputShape().rank() != 4) return WrongRank("avgPool2d", "[height, width, channels]");
    TY_ASSIGN_OR_RETURN(const Value x, InPanels());
    return builder_.AvgPool(layer_->name, x, pool.window);
  }
  absl::StatusOr<Value> Build(const GlobalAveragePool2dLayer&) {
    const Shape input = InputShape();
    if (input.rank() != 4) return WrongRank("globalAveragePool2d", "[height, width, channels]");
    const Window whole{.size = {static_cast<int32_t>(input[1]), static_cast<int32_t>(input[2])}};
    TY_ASSIGN_OR_RETURN(const Value x, InPanels());
    TY_ASSIGN_OR_RETURN(const Value pooled, builder_.AvgPool(layer_->name, x, whole));
    return builder_.Flatten(Name("flatten"), pooled);
  }
  absl::StatusOr<Value> Build(const BatchNormalizationLayer& norm) {
    const Shape input = InputShape();
    if (input.rank() < 2) return WrongRank("batchNormalization", "[.., channels]");
    BatchNormParameters parameters;
    const Shape channels({input[-1]});
    TY_ASSIGN_OR_RETURN(parameters.gamma, builder_.Parameter(Name("gamma"), channels));
    TY_ASSIGN_OR_RETURN(parameters.beta, builder_.Parameter(Name("beta"), channels));
    TY_ASSIGN_OR_RETURN(parameters.moving_mean, builder_.Parameter(Name("moving_mean"), channels, /*trainable=*/false));
    TY_ASSIGN_OR_RETURN(parameters.moving_variance, builder_.Parameter(Name("moving_variance"), channels, /*trainable=*/false));
    TY_ASSIGN_OR_RETURN(const Value x, InPanels());
    TY_ASSIGN_OR_RETURN(const Value y, builder_.BatchNorm(layer_->name, x, parameters, static_cast<float>(norm.momentum),
                                                          static_cast<float>(norm.epsilon)));
    network_.next_values.push_back({parameters.moving_mean, {y.node, 1}});
    network_.next_values.push_back({parameters.moving_variance, {y.node, 2}});
    return y;
  }
  absl::StatusOr<Value> Build(const FlattenLayer&) { return builder_.Flatten(layer_->name, inputs_[0]); }
  absl::StatusOr<Value> Build(const ReshapeLayer& reshape) {
    const Shape input = InputShape();
    const int64_t available = input.elements() / input[0];
    std::vector<int64_t> extents{input[0]};
    int64_t known = 1;
    for (const int64_t extent : reshape.target_shape) {
      if (extent >= 0) TY_RETURN_IF_ERROR(CheckElements("the target shape", static_cast<double>(known) * static_cast<double>(extent)));
      known *= extent < 0 ? 1 : extent;
    }
    for (const int64_t extent : reshape.target_shape) extents.push_back(extent < 0 ? (known == 0 ? 0 : available / known) : extent);
    if (Product(std::span(extents).subspan(1)) != static_cast<double>(available)) {
      return absl::InvalidArgumentError(fmt::format("targetShape {} does not hold the {} elements of input {}",
                                                    Shape(reshape.target_shape).ToString(), available, ExampleText(input)));
    }
    return builder_.Reshape(layer_->name, inputs_[0], Shape(extents));
  }
  absl::StatusOr<Value> Build(const AddLayer&) {
    if (inputs_.size() < 2) return absl::InvalidArgumentError("found 1 input, expected two or more in `inputs`");
    for (size_t i = 1; i < inputs_.size(); ++i) {
      const std::string name = Name(fmt::format("layout{}", i));
      TY_ASSIGN_OR_RETURN(inputs_[i], builder_.spec(inputs_[0]).rows ? builder_.Rows(name, inputs_[i]) : builder_.Panels(name, inputs_[i]));
    }
    return builder_.Add(layer_->name, inputs_);
  }
  absl::StatusOr<Value> Build(const ActivationLayer& activation) { return Activate(layer_->name, inputs_[0], activation.function); }
  absl::StatusOr<Value> Build(const DropoutLayer& dropout) {
    return builder_.Dropout(layer_->name, inputs_[0], static_cast<float>(dropout.rate));
  }

  absl::StatusOr<Value> Build(const EmbeddingLayer& embedding) {
    const Value ids = inputs_[0];
    const Node& node = builder_.graph().node(ids.node);
    const auto* input = std::get_if<InputOp>(&node.op);
    if (input == nullptr || input->limit == 0) {
      return absl::InvalidArgumentError("embedding takes tokens: the model's input with a `vocabulary`, found numbers");
    }
    const int64_t rows = embedding.input_dim == 0 ? input->limit : embedding.input_dim;
    if (rows < input->limit) {
      return absl::InvalidArgumentError(fmt::format("inputDim is {}, expected at least the input's vocabulary of {}", rows, input->limit));
    }
    const Shape shape({rows, embedding.output_dim});
    TY_RETURN_IF_ERROR(CheckElements("the table", Product(shape.extents())));
    TY_ASSIGN_OR_RETURN(const Value table, builder_.Parameter(Name("embeddings"), shape));
    return builder_.Embedding(layer_->name, ids, table);
  }
  absl::StatusOr<Value> Build(const RecurrentLayer& layer) {
    TY_ASSIGN_OR_RETURN(const Value x, InRows());
    TY_ASSIGN_OR_RETURN(const Value y, Unroll(layer, layer_->name, x, layer.go_backwards));
    return OutputOf(layer, y);
  }
  absl::StatusOr<Value> Build(const BidirectionalLayer& both) {
    TY_ASSIGN_OR_RETURN(const Value x, InRows());
    TY_ASSIGN_OR_RETURN(const Value forward, Unroll(both.layer, Name("forward"), x, /*reverse=*/false));
    TY_ASSIGN_OR_RETURN(const Value backward, Unroll(both.layer, Name("backward"), x, /*reverse=*/true));
    const std::array parts = {OutputOf(both.layer, forward), OutputOf(both.layer, backward)};
    if (both.merge == BidirectionalLayer::Merge::kSum) return builder_.Add(layer_->name, parts);
    return builder_.Concat(layer_->name, parts);
  }

  static Value OutputOf(const RecurrentLayer& layer, Value y) {
    return {y.node, layer.return_sequences ? RecurrentOutputs::kSequence : RecurrentOutputs::kLast};
  }

  // The node called `name` that runs `layer` over x [batch, steps, features], with parameters and states below that name.
  absl::StatusOr<Value> Unroll(const RecurrentLayer& layer, const std::string& name, Value x, bool reverse) {
    const Shape input = builder_.spec(x).shape;
    const int64_t width = GateCount(layer.cell) * layer.units;
    const bool gru = layer.cell == Cell::kGru;
    const WeightsSpec& weights = layer.weights;
    RecurrentOp op{.cell = layer.cell, .activation = GraphActivation(layer.activation), .initial = layer.stateful, .reverse = reverse};
    TY_RETURN_IF_ERROR(CheckElements("the kernel", Product(std::array{input[2], width})));
    TY_RETURN_IF_ERROR(CheckElements("the recurrent kernel", Product(std::array{layer.units, width})));
    TY_ASSIGN_OR_RETURN(const Value kernel, builder_.Parameter(name + "/kernel", Shape({input[2], width})));
    if (weights.kernel_l2 > 0) network_.penalties[static_cast<float>(weights.kernel_l2)].push_back(kernel);
    TY_ASSIGN_OR_RETURN(Value z, builder_.Dense(name + "/inputs", x, kernel));
    std::vector<Value> inputs(2);
    TY_ASSIGN_OR_RETURN(inputs[1], builder_.Parameter(name + "/recurrent_kernel", Shape({layer.units, width})));
    if (weights.use_bias) {
      TY_ASSIGN_OR_RETURN(const Value bias, builder_.Parameter(name + "/bias", gru ? Shape({2, width}) : Shape({width})));
      if (gru) {
        op.bias = true;
        inputs.push_back(bias);
      } else {
        TY_ASSIGN_OR_RETURN(z, builder_.Bias(name + "/inputs/bias_add", z, bias));
      }
    }
    inputs[0] = z;
    const size_t first_state = inputs.size();
    if (layer.stateful) {
      for (const char* const part : {"/h", "/c"}) {
        if (part[1] == 'c' && layer.cell != Cell::kLstm) break;
        TY_ASSIGN_OR_RETURN(inputs.emplace_back(), builder_.State(name + part, Shape({input[0], layer.units})));
      }
    }
    TY_ASSIGN_OR_RETURN(const Value y, builder_.Recurrent(name, op, inputs));
    constexpr std::array kNext = {RecurrentOutputs::kLast, RecurrentOutputs::kLastCell};
    for (size_t i = first_state; i < inputs.size(); ++i) {
      TY_RETURN_IF_ERROR(builder_.NextState(inputs[i], {y.node, kNext[i - first_state]}));
    }
    return y;
  }

  // The first input in rows, a sequence.
  absl::StatusOr<Value> InRows() {
    if (InputShape().rank() != 3) return WrongRank("a recurrent layer", "[steps, features]");
    return builder_.Rows(Name("rows"), inputs_[0]);
  }
  absl::StatusOr<Value> InPanels() { return builder_.Panels(Name("panels"), inputs_[0]); }

  static std::string ExampleText(const Shape& shape) { return Shape(shape.extents().subspan(1)).ToString(); }
  absl::Status WrongRank(std::string_view kind, std::string_view expected) const {
    return absl::InvalidArgumentError(fmt::format("{} takes {}, found an input of shape {}", kind, expected, ExampleText(InputShape())));
  }

  GraphBuilder& builder_;
  const bool skip_last_softmax_;
  std::map<std::string, Value, std::less<>> values_;
  Network network_;
  // Of the layer that is being added.
  const LayerSpec* layer_ = nullptr;
  std::vector<Value> inputs_;
  bool softmax_allowed_ = true;
};

// The network without loss; without an output after adding an error.
Network BuildLayers(const ModelSpec& spec, int64_t batch, GraphBuilder& builder, FieldErrors& errors) {
  TY_CHECK(batch >= 1 && batch <= kMaxBatch);
  LayerBuilder layers(builder, spec.loss == Loss::kSoftmaxCrossEntropy);
  if (const absl::Status status = layers.AddInput(spec.input_shape, spec.vocabulary, batch); !status.ok()) {
    errors.Add(spec.path + ".input.shape", std::string(status.message()));
    return {};
  }
  for (const LayerSpec& layer : spec.layers) {
    const absl::Status status = layers.Add(layer, &layer == &spec.layers.back());
    if (status.ok()) continue;
    errors.Add(layer.path, std::string(status.message()));
    return {};
  }
  return layers.network();
}

absl::StatusOr<Network> BuildLayers(const ModelSpec& spec, int64_t batch, GraphBuilder& builder) {
  FieldErrors errors;
  Network network = BuildLayers(spec, batch, builder, errors);
  TY_RETURN_IF_ERROR(errors.ToStatus("model"));
  return network;
}

// Adds the penalties on weights to `loss`, called kDataLoss where there are any; what comes of it is the output kLossOutput.
constexpr std::string_view kDataLoss = "loss/data";

std::string_view LossNode(const Network& network) { return network.penalties.empty() ? kLossOutput : kDataLoss; }

absl::Status FinishLoss(const Network& network, Value loss, GraphBuilder& builder) {
  size_t left = network.penalties.size();
  for (const auto& [l2, weights] : network.penalties) {
    const std::string name = --left == 0 ? std::string(kLossOutput) : fmt::format("loss/l2_{}", left);
    TY_ASSIGN_OR_RETURN(loss, builder.L2Penalty(name, loss, weights, l2));
  }
  return builder.Output(kLossOutput, loss);
}

// Adds the loss and, unless the graph is one of training, which nobody asks for it, what is measured beside it.
absl::Status AddLoss(const ModelSpec& spec, const Network& network, bool training, GraphBuilder& builder) {
  const Value output = network.output;
  const Shape shape = builder.spec(output).shape;
  if (spec.loss == Loss::kMeanSquaredError) {
    TY_ASSIGN_OR_RETURN(Value target, builder.Input(kTargetFeed, shape));
    if (builder.spec(output).rows) {
      TY_ASSIGN_OR_RETURN(target, builder.Rows("target/rows", target));
    }
    TY_ASSIGN_OR_RETURN(Value loss, builder.MeanSquaredError(LossNode(network), output, target));
    TY_RETURN_IF_ERROR(FinishLoss(network, loss, builder));
    return builder.Output(kPredictionOutput, output);
  }
  const Shape label_shape(shape.extents().first(shape.rank() - 1));
  TY_ASSIGN_OR_RETURN(Value labels,
                      builder.IntegerInput(kLabelsFeed, label_shape, static_cast<int32_t>(shape[-1]), builder.spec(output).rows));
  TY_ASSIGN_OR_RETURN(Value loss, builder.SoftmaxCrossEntropy(LossNode(network), output, labels));
  TY_RETURN_IF_ERROR(FinishLoss(network, loss, builder));
  if (!training) {
    TY_ASSIGN_OR_RETURN(Value correct, builder.CorrectCount(kCorrectOutput, output, labels));
    TY_RETURN_IF_ERROR(builder.Output(kCorrectOutput, correct));
  }
  return builder.Output(kLogitsOutput, output);
}

// `training`: with what a step leaves for parameters that are not trainable.
absl::StatusOr<Graph> BuildWithLoss(const ModelSpec& spec, int64_t batch, bool training) {
  GraphBuilder builder;
  TY_ASSIGN_OR_RETURN(const Network network, BuildLayers(spec, batch, builder));
  TY_RETURN_IF_ERROR(AddLoss(spec, network, training, builder));
  if (training) {
    for (const Network::NextValue& next : network.next_values) TY_RETURN_IF_ERROR(builder.NextValue(next.parameter, next.value));
  }
  return FuseEpilogues(std::move(builder).Build());
}

}  // namespace

absl::StatusOr<Graph> BuildTrainingGraph(const ModelSpec& spec, int64_t batch) {
  TY_ASSIGN_OR_RETURN(Graph graph, BuildWithLoss(spec, batch, /*training=*/true));
  TY_RETURN_IF_ERROR(AddGradients(graph, graph.outputs().find(kLossOutput)->second));
  return graph;
}

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
  return FuseEpilogues(std::move(builder).Build());
}

absl::StatusOr<std::vector<ParameterSpec>> ParameterSpecsOf(const ModelSpec& spec) {
  GraphBuilder builder;
  TY_RETURN_IF_ERROR(BuildLayers(spec, 1, builder).status());
  const auto parameters = builder.graph().parameters();
  return std::vector<ParameterSpec>(parameters.begin(), parameters.end());
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
  const bool sequence = shape.rank() == 3 && builder.spec(network.output).rows;
  if (spec.loss == Loss::kSoftmaxCrossEntropy && shape.rank() != 2 && !sequence) {
    errors.Add(spec.layers.back().path, fmt::format("the last layer gives {} for each example, softmaxCrossEntropy takes [classes]",
                                                    Shape(shape.extents().subspan(1)).ToString()));
    return;
  }
  if (const absl::Status status = AddLoss(spec, network, /*training=*/false, builder); !status.ok())
    errors.Add(spec.layers.back().path, std::string(status.message()));
}

}  // namespace trainyard::engine
