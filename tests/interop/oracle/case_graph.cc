#include "tests/interop/oracle/case_graph.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/ops/builder.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

Activation ActivationOf(const std::string& name) {
  for (int i = 0; i < kActivations; ++i) {
    if (ActivationName(static_cast<Activation>(i)) == name) return static_cast<Activation>(i);
  }
  return Activation::kCount;
}

Cell CellOf(const std::string& name) {
  if (name == "lstm") return Cell::kLstm;
  return name == "gru" ? Cell::kGru : Cell::kSimpleRnn;
}

// Makes a graph of a case's nodes, in order.
class CaseGraph {
 public:
  static absl::StatusOr<Graph> Build(const json& one, bool inference) {
    CaseGraph graph;
    for (const json& node : one.at("nodes")) {
      if (inference && node.value("training", false)) continue;
      TY_ASSIGN_OR_RETURN(const Value value, graph.Add(node));
      graph.values_[node.at("name").get<std::string>()] = value;
    }
    for (const std::string name : one.at("outputs")) {
      if (inference && !graph.values_.contains(name.substr(0, name.find(':')))) continue;
      TY_RETURN_IF_ERROR(graph.builder_.Output(name, graph.At(name)));
    }
    if (inference) return std::move(graph.builder_).Build();
    graph.builder_.Loss(graph.At(one.at("loss").get<std::string>()));
    for (const auto& [parameter, value] : one.at("next").items()) {
      TY_RETURN_IF_ERROR(graph.builder_.NextValue(graph.At(parameter), graph.At(value.get<std::string>())));
    }
    return std::move(graph.builder_).Build();
  }

 private:
  // "name" or "name:output".
  Value At(const std::string& reference) const {
    const size_t colon = reference.find(':');
    Value value = values_.at(reference.substr(0, colon));
    if (colon != std::string::npos) value.output = std::stoi(reference.substr(colon + 1));
    return value;
  }

  static Padding PaddingOf(const json& node) { return node.at("padding") == "same" ? Padding::kSame : Padding::kValid; }
  static Window WindowOf(const json& node) {
    return {.size = node.at("size").get<std::array<int32_t, 2>>(),
            .stride = node.at("strides").get<std::array<int32_t, 2>>(),
            .padding = PaddingOf(node)};
  }

  absl::StatusOr<Value> Add(const json& node) {
    const auto name = node.at("name").get<std::string>();
    const auto op = node.at("op").get<std::string>();
    Shape shape;
    if (node.contains("shape")) shape = Shape(node.at("shape").get<std::vector<int64_t>>());
    std::vector<Value> in;
    for (const std::string input : node.value("inputs", json::array())) in.push_back(At(input));

    if (op == "input") return builder_.Input(name, shape);
    if (op == "integers") return builder_.IntegerInput(name, shape, node.at("limit").get<int32_t>());
    if (op == "parameter") return builder_.Parameter(name, shape, node.value("trainable", true));
    if (op == "dense") return builder_.Dense(name, in[0], in[1]);
    if (op == "conv2d") return builder_.Conv2d(name, in[0], in[1], node.at("strides").get<std::array<int32_t, 2>>(), PaddingOf(node));
    if (op == "bias") return builder_.Bias(name, in[0], in[1]);
    if (op == "activate") return builder_.Activate(name, in[0], ActivationOf(node.at("function")));
    if (op == "add") return builder_.Add(name, in);
    if (op == "dropout") return builder_.Dropout(name, in[0], node.at("rate").get<float>());
    if (op == "reshape") return builder_.Reshape(name, in[0], shape);
    if (op == "flatten") return builder_.Flatten(name, in[0]);
    if (op == "concat") return builder_.Concat(name, in);
    if (op == "embedding") return builder_.Embedding(name, in[0], in[1]);
    if (op == "max_pool") return builder_.MaxPool(name, in[0], WindowOf(node));
    if (op == "avg_pool") return builder_.AvgPool(name, in[0], WindowOf(node));
    if (op == "batch_norm") {
      return builder_.BatchNorm(name, in[0], {in[1], in[2], in[3], in[4]}, node.at("momentum").get<float>(),
                                node.at("epsilon").get<float>());
    }
    if (op == "recurrent") {
      const RecurrentOp recurrent = {.cell = CellOf(node.at("cell")),
                                     .activation = ActivationOf(node.at("function")),
                                     .bias = node.at("bias"),
                                     .initial = node.at("initial"),
                                     .reverse = node.at("reverse")};
      return builder_.Recurrent(name, recurrent, std::move(in));
    }
    if (op == "softmax") return builder_.Softmax(name, in[0]);
    if (op == "softmax_cross_entropy") return builder_.SoftmaxCrossEntropy(name, in[0], in[1]);
    if (op == "correct_count") return builder_.CorrectCount(name, in[0], in[1]);
    if (op == "mean_squared_error") return builder_.MeanSquaredError(name, in[0], in[1]);
    if (op == "l2_penalty") return builder_.L2Penalty(name, in[0], std::span(in).subspan(1), node.at("l2").get<float>());
    return absl::InvalidArgumentError(fmt::format("node '{}': unknown op '{}'", name, op));
  }

  GraphBuilder builder_;
  std::map<std::string, Value> values_;
};

}  // namespace

absl::StatusOr<Graph> BuildCaseGraph(const json& one, bool inference) { return CaseGraph::Build(one, inference); }

}  // namespace trainyard::engine
