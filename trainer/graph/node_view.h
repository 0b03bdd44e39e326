// A node with the specs of its inputs and outputs: rules and kernels are written against it.
#pragma once

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// Valid as long as the graph is not changed.
class NodeView {
 public:
  NodeView(const Graph& graph, NodeId id) : graph_(graph), node_(graph.node(id)) {}

  const Node& node() const { return node_; }
  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  const ValueSpec& in(int i) const { return graph_.spec(node_.inputs[i]); }
  const ValueSpec& out(int i = 0) const { return node_.outputs[i]; }

 private:
  const Graph& graph_;
  const Node& node_;
};

}  // namespace trainyard::engine
