// Rewriting passes (fusion, layouts) make a new graph of an old one, node by node.
#pragma once

#include <vector>

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// Holds which new node stands for which old one. Nodes must be added in an order in which inputs
// come first. Parameters and states are copied at once and keep their keys.
class GraphCopy {
 public:
  // `from` must outlive the copy.
  explicit GraphCopy(const Graph& from);

  // The new value for an old value whose node is mapped already.
  Value At(Value old) const;
  const Graph& graph() const { return to_; }
  // Adds a node, which stands for no old one until it is mapped.
  NodeId Add(Node node) { return to_.AddNode(std::move(node)); }
  void Map(NodeId old, NodeId made) { mapped_[old] = made; }
  // Adds the old node as it is, but for its inputs, and maps it.
  NodeId Copy(NodeId old);
  // The new graph, with outputs, results, next states and loss of the old one. Every node that
  // these name must be mapped.
  Graph Finish() &&;

 private:
  const Graph& from_;
  Graph to_;
  std::vector<NodeId> mapped_;  // old id → new id, -1: not mapped
};

// What the graph names: outputs, results, next states and its loss, as far as there are any. A
// value may come twice.
std::vector<Value> NamedValues(const Graph& graph);

// [node]: the nodes that read one of its outputs, in order. A node that reads two of its inputs
// from it stands there twice.
std::vector<std::vector<NodeId>> ReadersOf(const Graph& graph);

}  // namespace trainyard::engine
