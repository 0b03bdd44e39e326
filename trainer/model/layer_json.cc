#include "trainer/model/layer_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "trainer/base/check.h"
#include "trainer/model/field_reader.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

// Large enough for every network, small enough that products of a few of them stay far from overflow.
constexpr Integers kChannels{.min = 1, .max = 65536};
constexpr Integers kUnits{.min = 1, .max = 1 << 24};
constexpr Integers kWindow{.min = 1, .max = 1024};

LayerActivation ReadActivation(FieldReader& fields, std::string_view name, std::optional<LayerActivation> fallback) {
  return fields.Choice<LayerActivation>(name,
                                        {{"linear", LayerActivation::kLinear},
                                         {"identity", LayerActivation::kLinear},
                                         {"tanh", LayerActivation::kTanh},
                                         {"relu", LayerActivation::kRelu},
                                         {"sigmoid", LayerActivation::kSigmoid},
                                         {"softmax", LayerActivation::kSoftmax}},
                                        fallback);
}

Initializer ReadInitializer(FieldReader& fields, std::string_view name, Initializer fallback) {
  return fields.Choice<Initializer>(name,
                                    {{"glorotUniform", Initializer::kGlorotUniform},
                                     {"glorotNormal", Initializer::kGlorotNormal},
                                     {"heUniform", Initializer::kHeUniform},
                                     {"heNormal", Initializer::kHeNormal},
                                     {"uniform", Initializer::kUniform},
                                     {"orthogonal", Initializer::kOrthogonal},
                                     {"zeros", Initializer::kZeros},
                                     {"ones", Initializer::kOnes}},
                                    fallback);
}

WeightsSpec ReadWeights(FieldReader& fields) {
  WeightsSpec weights;
  weights.use_bias = fields.Bool("useBias", true);
  weights.kernel_initializer = ReadInitializer(fields, "kernelInitializer", weights.kernel_initializer);
  weights.bias_initializer = ReadInitializer(fields, "biasInitializer", weights.bias_initializer);
  if (const json* regularizer = fields.Get("kernelRegularizer")) {
    FieldReader penalty = fields.Inside("kernelRegularizer", *regularizer);
    weights.kernel_l2 = penalty.Number("l2", {.min = 0, .max = 1e6});
    penalty.RefuseOthers();
  }
  return weights;
}

// A size of height and width: 5 or [5, 3].
std::array<int32_t, 2> ReadPair(FieldReader& fields, std::string_view name, std::optional<std::array<int32_t, 2>> fallback) {
  const json* value = fields.Get(name);
  if (value == nullptr && fallback.has_value()) return *fallback;
  if (value != nullptr && value->is_array()) {
    const std::vector<int64_t> pair = fields.IntegerList(name, kWindow, 2, 2);
    if (pair.size() != 2) return {1, 1};
    return {static_cast<int32_t>(pair[0]), static_cast<int32_t>(pair[1])};
  }
  const auto size = static_cast<int32_t>(fields.Integer(name, kWindow));
  return {size, size};
}

Padding ReadPadding(FieldReader& fields) {
  return fields.Choice<Padding>("padding", {{"valid", Padding::kValid}, {"same", Padding::kSame}}, Padding::kValid);
}

LayerKind ReadConv2d(FieldReader& fields) {
  Conv2dLayer layer;
  layer.filters = fields.Integer("filters", kChannels);
  layer.window.size = ReadPair(fields, "kernelSize", std::nullopt);
  layer.window.stride = ReadPair(fields, "strides", layer.window.stride);
  layer.window.padding = ReadPadding(fields);
  layer.activation = ReadActivation(fields, "activation", layer.activation);
  layer.weights = ReadWeights(fields);
  return layer;
}

template <typename Pool>
LayerKind ReadPool(FieldReader& fields) {
  Pool layer;
  layer.window.size = ReadPair(fields, "poolSize", std::array<int32_t, 2>{2, 2});
  layer.window.stride = ReadPair(fields, "strides", layer.window.size);
  layer.window.padding = ReadPadding(fields);
  return layer;
}

LayerKind ReadBatchNormalization(FieldReader& fields) {
  BatchNormalizationLayer layer;
  layer.momentum = fields.Number("momentum", {.min = 0, .max = 1, .below = true}, layer.momentum);
  layer.epsilon = fields.Number("epsilon", {.min = 1e-12, .max = 1e6}, layer.epsilon);
  return layer;
}

LayerKind ReadDense(FieldReader& fields) {
  DenseLayer layer;
  layer.units = fields.Integer("units", kUnits);
  layer.activation = ReadActivation(fields, "activation", layer.activation);
  layer.weights = ReadWeights(fields);
  return layer;
}

LayerKind ReadReshape(FieldReader& fields) {
  ReshapeLayer layer;
  layer.target_shape = fields.IntegerList("targetShape", {.min = -1, .max = kUnits.max}, 1, Shape::kMaxRank - 1);
  if (std::ranges::count(layer.target_shape, -1) > 1) fields.Error("targetShape", "found more than one -1, expected at most one");
  if (std::ranges::count(layer.target_shape, 0) > 0)
    fields.Error("targetShape", "found 0, expected extents >= 1, or -1 for what is left over");
  return layer;
}

LayerKind ReadActivationLayer(FieldReader& fields) { return ActivationLayer{ReadActivation(fields, "function", std::nullopt)}; }

LayerKind ReadDropout(FieldReader& fields) { return DropoutLayer{fields.Number("rate", {.min = 0, .max = 1, .below = true})}; }

LayerKind ReadEmbedding(FieldReader& fields) {
  EmbeddingLayer layer;
  layer.input_dim = fields.Integer("inputDim", kUnits, layer.input_dim);
  layer.output_dim = fields.Integer("outputDim", kChannels);
  layer.initializer = ReadInitializer(fields, "embeddingsInitializer", layer.initializer);
  return layer;
}

RecurrentLayer ReadRecurrent(FieldReader& fields, Cell cell) {
  RecurrentLayer layer{.cell = cell};
  layer.units = fields.Integer("units", kChannels);
  if (cell == Cell::kSimpleRnn) {
    layer.activation = ReadActivation(fields, "activation", layer.activation);
    if (layer.activation == LayerActivation::kSoftmax) fields.Error("activation", "found \"softmax\", which no simpleRnn takes");
  }
  layer.return_sequences = fields.Bool("returnSequences", false);
  layer.stateful = fields.Bool("stateful", false);
  layer.go_backwards = fields.Bool("goBackwards", false);
  if (cell == Cell::kLstm) layer.unit_forget_bias = fields.Bool("unitForgetBias", true);
  layer.weights = ReadWeights(fields);
  layer.recurrent_initializer = ReadInitializer(fields, "recurrentInitializer", layer.recurrent_initializer);
  return layer;
}

template <Cell kCell>
LayerKind ReadRecurrentLayer(FieldReader& fields) {
  return ReadRecurrent(fields, kCell);
}

LayerKind ReadBidirectional(FieldReader& fields) {
  using Named = std::pair<std::string_view, Cell>;
  static constexpr std::array kCells{Named{"lstm", Cell::kLstm}, Named{"gru", Cell::kGru}, Named{"simpleRnn", Cell::kSimpleRnn}};
  BidirectionalLayer layer;
  layer.merge = fields.Choice<BidirectionalLayer::Merge>(
      "mergeMode", {{"concat", BidirectionalLayer::Merge::kConcat}, {"sum", BidirectionalLayer::Merge::kSum}}, layer.merge);
  const json* inner = fields.Require("layer", "an object such as {lstm: {units: 200}}");
  if (inner == nullptr) return layer;
  FieldReader inner_fields = fields.Inside("layer", *inner);
  int found = 0;
  for (const auto& [name, cell] : kCells) {
    const json* arguments = inner_fields.Get(name);
    if (arguments == nullptr) continue;
    ++found;
    FieldReader cell_fields = inner_fields.Inside(name, *arguments);
    layer.layer = ReadRecurrent(cell_fields, cell);
    if (layer.layer.stateful)
      cell_fields.Error("stateful", "found true; a bidirectional layer sees each batch whole, so it carries no state");
    if (layer.layer.go_backwards) cell_fields.Error("goBackwards", "found true; a bidirectional layer goes both ways already");
    cell_fields.RefuseOthers();
  }
  inner_fields.RefuseOthers();
  if (found != 1) fields.Error("layer", fmt::format("found {} recurrent layers, expected exactly one of lstm, gru and simpleRnn", found));
  return layer;
}

struct Kind {
  std::string_view name;
  LayerKind (*read)(FieldReader&);
};
constexpr std::array kKinds{
    Kind{"conv2d", ReadConv2d},
    Kind{"maxPool2d", ReadPool<MaxPool2dLayer>},
    Kind{"avgPool2d", ReadPool<AvgPool2dLayer>},
    Kind{"globalAveragePool2d", [](FieldReader&) -> LayerKind { return GlobalAveragePool2dLayer{}; }},
    Kind{"batchNormalization", ReadBatchNormalization},
    Kind{"dense", ReadDense},
    Kind{"flatten", [](FieldReader&) -> LayerKind { return FlattenLayer{}; }},
    Kind{"reshape", ReadReshape},
    Kind{"add", [](FieldReader&) -> LayerKind { return AddLayer{}; }},
    Kind{"activation", ReadActivationLayer},
    Kind{"dropout", ReadDropout},
    Kind{"embedding", ReadEmbedding},
    Kind{"lstm", ReadRecurrentLayer<Cell::kLstm>},
    Kind{"gru", ReadRecurrentLayer<Cell::kGru>},
    Kind{"simpleRnn", ReadRecurrentLayer<Cell::kSimpleRnn>},
    Kind{"bidirectional", ReadBidirectional},
};

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

std::string UnknownKind(const std::string& name) {
  const std::vector<std::string> names = KindNames();
  const std::string_view nearest = NearestName(name, names);
  if (!nearest.empty()) return fmt::format("unknown layer; did you mean \"{}\"?", nearest);
  return fmt::format("unknown layer; known: {}", fmt::join(names, ", "));
}

const Kind* FindKind(std::string_view name) {
  const auto* kind = std::ranges::find(kKinds, name, &Kind::name);
  return kind == kKinds.end() ? nullptr : kind;
}

}  // namespace

std::string LayerReader::DefaultName(const std::string& kind) const {
  std::string name = kind;
  for (int count = 1; names_.contains(name); ++count) name = fmt::format("{}_{}", kind, count);
  return name;
}

void LayerReader::CheckName(const std::string& name, const std::string& path) {
  // Names that the graph uses for itself.
  static constexpr std::array<std::string_view, 8> kReserved{kInputName, "labels", "target",        "loss",
                                                             "correct",  "logits", "probabilities", "prediction"};
  const bool spelled = !name.empty() && name.size() <= 100 &&
                       std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; });
  if (!spelled) {
    errors_.Add(path, fmt::format("found {}, expected 1 to 100 letters, digits, '_', '-' and '.'", Found(json(name))));
  } else if (std::ranges::find(kReserved, name) != kReserved.end()) {
    errors_.Add(path, fmt::format("found \"{}\", a name that is kept for the network's own inputs and outputs; choose another", name));
  } else if (names_.contains(name)) {
    errors_.Add(path, fmt::format("found \"{}\" again; each layer needs a name of its own", name));
  }
}

LayerSpec LayerReader::Read(const json& entry, const std::string& path) {
  LayerSpec layer;
  layer.path = path;
  layer.inputs = {previous_};
  std::string kind_name;
  static const json kNoFields = json::object();
  const json* arguments = &kNoFields;
  if (entry.is_string()) {
    kind_name = entry.get<std::string>();
    if (FindKind(kind_name) == nullptr) {
      errors_.Add(path, fmt::format("found {}: {}", Found(entry), UnknownKind(kind_name)));
      return layer;
    }
  } else if (entry.is_object()) {
    std::vector<std::string> kinds;
    for (const auto& [field, value] : entry.items()) {
      if (field == "name" || field == "inputs") continue;
      kinds.push_back(field);
      if (FindKind(field) == nullptr) errors_.Add(fmt::format("{}.{}", path, field), UnknownKind(field));
    }
    if (kinds.size() != 1) {
      errors_.Add(path, fmt::format("found {} layer kinds{}{}, expected exactly one beside name and inputs", kinds.size(),
                                    kinds.empty() ? "" : ": ", fmt::join(kinds, ", ")));
      return layer;
    }
    kind_name = kinds[0];
    if (!entry[kind_name].is_null()) arguments = &entry[kind_name];
    layer.path = fmt::format("{}.{}", path, kind_name);
  } else {
    errors_.Add(path, fmt::format("found {}, expected a layer: a name such as flatten, or an object such as {{dense: {{units: 10}}}}",
                                  Found(entry)));
    return layer;
  }

  if (const Kind* kind = FindKind(kind_name)) {
    FieldReader fields(*arguments, layer.path, errors_);
    layer.kind = kind->read(fields);
    fields.RefuseOthers();
  }
  layer.name = DefaultName(kind_name);
  if (entry.is_object()) {
    FieldReader fields(entry, path, errors_);
    if (fields.Get("name") != nullptr) {
      layer.name = fields.Text("name");
      CheckName(layer.name, path + ".name");
    }
    if (fields.Get("inputs") != nullptr) layer.inputs = fields.TextList("inputs");
    if (layer.inputs.empty()) fields.Error("inputs", "found no names, expected at least one");
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      if (layer.inputs[i] == kInputName || names_.contains(layer.inputs[i])) continue;
      fields.Error(fmt::format("inputs[{}]", i), fmt::format("found {}, expected \"{}\" or the name of a layer before this one",
                                                             Found(json(layer.inputs[i])), kInputName));
    }
  }
  names_.insert(layer.name);
  previous_ = layer.name;
  return layer;
}

}  // namespace trainyard::engine
