// A static computation for one batch size: nodes in the order in which they run, with inputs and
// outputs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/graph/node.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// A value that a step leaves for a parameter.
struct ParameterResult {
  // kGradient: the loss's derivative by the parameter. kNextValue: the next value of a parameter
  // that is not trainable (moving statistics).
  enum class Kind { kGradient, kNextValue };
  int key = 0;
  Value value;
  Kind kind = Kind::kGradient;
};

// Invariants: a node's inputs are outputs of earlier nodes (so the order of nodes() is
// topological); node, input and parameter names are unique. Made by GraphBuilder (ops/builder.h),
// rewritten by backends (FuseEpilogues, ops/fuse.h; layouts), grown by AddGradients
// (ops/gradient.h). A value: copy it freely; const access from any thread.
class Graph {
 public:
  // Breaking an invariant aborts.
  NodeId AddNode(Node node);
  // The key of a new parameter: the number of parameters before it.
  int AddParameter(ParameterSpec spec);
  void SetOutput(std::string name, Value value);
  void AddResult(ParameterResult result);
  // The index of a new state: the number of states before it.
  int AddState(ParameterSpec spec);
  // The value of state `index` after a step.
  void SetNextState(int index, Value value);
  // The scalar that training makes small.
  void SetLoss(Value loss);

  std::span<const Node> nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  // Whether `value` is an output of one of the nodes.
  bool Contains(Value value) const;
  const ValueSpec& spec(Value value) const { return nodes_[value.node].outputs[value.output]; }
  // The node called `name`, or -1.
  NodeId Find(std::string_view name) const;
  // Ids of the InputOp nodes, whose names are the feeds' names, in order.
  std::span<const NodeId> inputs() const { return inputs_; }
  // Indexed by key.
  std::span<const ParameterSpec> parameters() const { return parameters_; }
  // By name: "loss", "logits", "correct" …; each can be fetched after a step.
  const std::map<std::string, Value, std::less<>>& outputs() const { return outputs_; }
  // At most one for each key, in the order in which they were added. A step completes them in the
  // order of their values' nodes.
  std::span<const ParameterResult> results() const { return results_; }
  // Values that go from step to step beside parameters, by index: a recurrent layer's h and c, [N,
  // units] each. Never pushed.
  std::span<const ParameterSpec> states() const { return states_; }
  // By index; an invalid value leaves the state as it is.
  std::span<const Value> next_states() const { return next_states_; }
  // Invalid in a graph that is not for training. An executor adds the backward nodes of a forward
  // graph that has one.
  Value loss() const { return loss_; }

 private:
  std::vector<Node> nodes_;
  std::map<std::string, NodeId, std::less<>> ids_;
  std::vector<NodeId> inputs_;
  std::vector<ParameterSpec> parameters_;
  std::map<std::string, Value, std::less<>> outputs_;
  std::vector<ParameterResult> results_;
  std::vector<ParameterSpec> states_;
  std::vector<Value> next_states_;
  Value loss_;
};

}  // namespace trainyard::engine
