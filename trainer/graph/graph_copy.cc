#include "trainer/graph/graph_copy.h"

#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {

GraphCopy::GraphCopy(const Graph& from) : from_(from), mapped_(from.nodes().size(), -1) {
  for (const ParameterSpec& parameter : from.parameters()) to_.AddParameter(parameter);
  for (const ParameterSpec& state : from.states()) to_.AddState(state);
}

Value GraphCopy::At(Value old) const {
  TY_CHECK(mapped_[old.node] >= 0);
  return {mapped_[old.node], old.output};
}

NodeId GraphCopy::Copy(NodeId old) {
  Node node = from_.node(old);
  for (Value& input : node.inputs) input = At(input);
  const NodeId made = Add(std::move(node));
  Map(old, made);
  return made;
}

Graph GraphCopy::Finish() && {
  for (const auto& [name, value] : from_.outputs()) to_.SetOutput(name, At(value));
  for (const ParameterResult& result : from_.results()) to_.AddResult({result.key, At(result.value), result.kind});
  for (int i = 0; i < static_cast<int>(from_.states().size()); ++i) {
    if (const Value next = from_.next_states()[i]; next.valid()) to_.SetNextState(i, At(next));
  }
  if (from_.loss().valid()) to_.SetLoss(At(from_.loss()));
  return std::move(to_);
}

std::vector<Value> NamedValues(const Graph& graph) {
  std::vector<Value> named;
  const auto add = [&named](Value value) {
    if (value.valid()) named.push_back(value);
  };
  for (const auto& [name, value] : graph.outputs()) add(value);
  for (const ParameterResult& result : graph.results()) add(result.value);
  for (const Value& next : graph.next_states()) add(next);
  add(graph.loss());
  return named;
}

std::vector<std::vector<NodeId>> ReadersOf(const Graph& graph) {
  std::vector<std::vector<NodeId>> readers(graph.nodes().size());
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    for (const Value& input : graph.node(id).inputs) readers[input.node].push_back(id);
  }
  return readers;
}

}  // namespace trainyard::engine
