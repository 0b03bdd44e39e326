#include "trainer/ops/gradient.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/status_macros.h"
#include "trainer/ops/gradient_context.h"
#include "trainer/ops/rules.h"

namespace trainyard::engine {
namespace {

class Differentiator {
 public:
  Differentiator(Graph& graph, const GradientOptions& options)
      : graph_(graph), options_(options), forward_(static_cast<NodeId>(graph.nodes().size())) {
    for (NodeId id = 0; id < forward_; ++id) {
      wanted_.push_back(IsWanted(graph_.node(id)));
      arriving_.emplace_back(graph_.node(id).outputs.size());
    }
  }

  absl::Status Run(Value loss) {
    arriving_[loss.node][loss.output].push_back(
        {graph_.AddNode({"gradients/" + graph_.node(loss.node).name, LossScaleOp{}, {}, {ValueSpec{}}}), 0});
    for (NodeId id = forward_ - 1; id >= 0; --id) {
      if (!wanted_[id]) continue;
      std::vector<Value> outputs;
      for (const std::vector<Value>& terms : arriving_[id]) outputs.push_back(Sum(id, static_cast<int>(outputs.size()), terms));
      TY_RETURN_IF_ERROR(Visit(id, std::move(outputs)));
    }
    return absl::OkStatus();
  }

 private:
  // Whether a wanted gradient passes through the node.
  bool IsWanted(const Node& node) const {
    if (const auto* parameter = std::get_if<ParameterOp>(&node.op)) return graph_.parameters()[parameter->key].trainable;
    if (std::holds_alternative<InputOp>(node.op)) return std::ranges::count(options_.inputs, node.name) > 0;
    return std::ranges::any_of(node.inputs, [&](const Value& input) { return wanted_[input.node]; });
  }

  // The total gradient of an output that several nodes read.
  Value Sum(NodeId id, int output, const std::vector<Value>& terms) {
    if (terms.empty()) return {};
    if (terms.size() == 1) return terms[0];
    const Node& node = graph_.node(id);
    return {graph_.AddNode({fmt::format("gradients/{}/sum{}", node.name, output), AddOp{}, terms, {node.outputs[output]}}), 0};
  }

  absl::Status Visit(NodeId id, std::vector<Value> outputs) {
    if (std::ranges::none_of(outputs, &Value::valid)) return Unreached(id);
    if (const auto* parameter = std::get_if<ParameterOp>(&graph_.node(id).op)) {
      graph_.AddResult({parameter->key, outputs[0], ParameterResult::Kind::kGradient});
      return absl::OkStatus();
    }
    if (std::holds_alternative<InputOp>(graph_.node(id).op)) {
      graph_.SetOutput("gradients/" + graph_.node(id).name, outputs[0]);
      return absl::OkStatus();
    }
    const std::vector<Value> inputs = graph_.node(id).inputs;
    std::vector<bool> wants;
    std::vector<Value> earlier;
    for (const Value& input : inputs) {
      wants.push_back(wanted_[input.node]);
      const std::vector<Value>& terms = arriving_[input.node][input.output];
      earlier.push_back(terms.size() == 1 ? terms[0] : Value{});
    }
    GradientContext context(graph_, id, std::move(outputs), std::move(wants), std::move(earlier));
    const Op op = graph_.node(id).op;
    TY_RETURN_IF_ERROR(WithContext(AddOpGradient(op, context), fmt::format("layer '{}'", graph_.node(id).name)));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value gradient = context.input_gradients()[i];
      if (context.took_earlier_gradient(static_cast<int>(i))) arriving_[inputs[i].node][inputs[i].output].clear();
      if (gradient.valid() && wanted_[inputs[i].node]) arriving_[inputs[i].node][inputs[i].output].push_back(gradient);
    }
    return absl::OkStatus();
  }

  // Nothing flows back to the node: fine for a metric, an error where a gradient was asked for.
  absl::Status Unreached(NodeId id) const {
    const Node& node = graph_.node(id);
    if (std::holds_alternative<ParameterOp>(node.op)) {
      return absl::InvalidArgumentError(
          fmt::format("parameter '{}' has no influence on the loss; remove it or mark it as not trainable", node.name));
    }
    if (std::holds_alternative<InputOp>(node.op)) {
      return absl::InvalidArgumentError(fmt::format("input '{}' has no influence on the loss, so it has no gradient", node.name));
    }
    return absl::OkStatus();
  }

  Graph& graph_;
  const GradientOptions& options_;
  const NodeId forward_;
  std::vector<bool> wanted_;
  std::vector<std::vector<std::vector<Value>>> arriving_;  // [node][output]: gradients from its readers, in backward order
};

}  // namespace

absl::Status AddGradients(Graph& graph, Value loss, const GradientOptions& options) {
  TY_CHECK(graph.Contains(loss));
  if (const ValueSpec& spec = graph.spec(loss); spec != ValueSpec{}) {
    return absl::InvalidArgumentError(fmt::format("the loss '{}' is {} of shape {}, expected one real number (shape [])",
                                                  graph.node(loss.node).name, DTypeName(spec.dtype), spec.shape.ToString()));
  }
  return Differentiator(graph, options).Run(loss);
}

}  // namespace trainyard::engine
