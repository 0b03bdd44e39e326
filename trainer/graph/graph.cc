#include "trainer/graph/graph.h"

#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {

NodeId Graph::AddNode(Node node) {
  const NodeId id = static_cast<NodeId>(nodes_.size());
  TY_CHECK(!node.outputs.empty());
  for (const Value& input : node.inputs) TY_CHECK(Contains(input));
  TY_CHECK(ids_.emplace(node.name, id).second);
  if (std::holds_alternative<InputOp>(node.op)) inputs_.push_back(id);
  nodes_.push_back(std::move(node));
  return id;
}

int Graph::AddParameter(ParameterSpec spec) {
  for (const ParameterSpec& other : parameters_) TY_CHECK(other.name != spec.name);
  parameters_.push_back(std::move(spec));
  return static_cast<int>(parameters_.size()) - 1;
}

void Graph::SetOutput(std::string name, Value value) {
  TY_CHECK(Contains(value));
  outputs_.insert_or_assign(std::move(name), value);
}

void Graph::AddResult(ParameterResult result) {
  TY_CHECK(Contains(result.value) && result.key >= 0 && result.key < static_cast<int>(parameters_.size()));
  TY_CHECK(spec(result.value).shape.elements() == parameters_[result.key].shape.elements());
  for (const ParameterResult& other : results_) TY_CHECK(other.key != result.key);
  results_.push_back(result);
}

int Graph::AddState(ParameterSpec spec) {
  for (const ParameterSpec& other : states_) TY_CHECK(other.name != spec.name);
  states_.push_back(std::move(spec));
  next_states_.emplace_back();
  return static_cast<int>(states_.size()) - 1;
}

void Graph::SetNextState(int index, Value value) {
  TY_CHECK(Contains(value) && index >= 0 && index < static_cast<int>(states_.size()));
  TY_CHECK(spec(value).shape == states_[index].shape && !next_states_[index].valid());
  next_states_[index] = value;
}

void Graph::SetLoss(Value loss) {
  TY_CHECK(Contains(loss));
  loss_ = loss;
}

bool Graph::Contains(Value value) const {
  return value.node >= 0 && value.node < static_cast<NodeId>(nodes_.size()) && value.output >= 0 &&
         value.output < static_cast<int>(nodes_[value.node].outputs.size());
}

NodeId Graph::Find(std::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? -1 : found->second;
}

}  // namespace trainyard::engine
