// The context of a gradient rule: the forward node, the gradients at its outputs, and the places
// for those of its inputs.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// Made by AddGradients for one forward node at a time. Rules add nodes with Add and hand over
// results with SetInputGradient.
class GradientContext {
 public:
  // `output_gradients` may hold invalid values: nothing flows back through that output. At least
  // one is valid. earlier[i] is what the one other reader of input i that came before has made of
  // its gradient, invalid where there are none or several.
  GradientContext(Graph& graph, NodeId id, std::vector<Value> output_gradients, std::vector<bool> wanted, std::vector<Value> earlier)
      : graph_(graph),
        id_(id),
        node_(graph.node(id)),
        output_gradients_(std::move(output_gradients)),
        wanted_(std::move(wanted)),
        earlier_(std::move(earlier)),
        taken_(node_.inputs.size()),
        input_gradients_(node_.inputs.size()) {}

  Value input(int i) const { return node_.inputs[i]; }
  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  Value output(int i = 0) const { return {id_, i}; }
  const ValueSpec& spec(Value value) const { return graph_.spec(value); }
  Value output_gradient(int i = 0) const { return output_gradients_[i]; }
  // Whether the gradient of input i is of any use.
  bool wants(int i) const { return wanted_[i]; }

  // A node called "gradients/<forward node>/<role>".
  NodeId Add(std::string_view role, const Op& op, std::vector<Value> inputs, std::vector<ValueSpec> outputs) {
    return graph_.AddNode({"gradients/" + node_.name + "/" + std::string(role), op, std::move(inputs), std::move(outputs)});
  }
  void SetInputGradient(int i, Value gradient) { input_gradients_[i] = gradient; }
  const std::vector<Value>& input_gradients() const { return input_gradients_; }
  // The other term of input i's gradient, if there is one so far. The rule that takes it adds it to
  // its own, and hands over the sum. Once for each input.
  Value TakeEarlierGradient(int i) {
    taken_[i] = earlier_[i].valid();
    return earlier_[i];
  }
  bool took_earlier_gradient(int i) const { return taken_[i]; }

 private:
  Graph& graph_;
  NodeId id_;
  Node node_;  // a copy: adding nodes moves the graph's
  std::vector<Value> output_gradients_;
  std::vector<bool> wanted_;
  std::vector<Value> earlier_;
  std::vector<bool> taken_;
  std::vector<Value> input_gradients_;
};

}  // namespace trainyard::engine
