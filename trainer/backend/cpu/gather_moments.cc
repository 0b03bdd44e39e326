#include "trainer/backend/cpu/gather_moments.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/graph/graph_copy.h"

namespace trainyard::engine {
namespace {

// Whether the batch normalisation takes the whole of what a convolution stores.
bool ReadsConvolution(const Graph& graph, const Node& node) {
  const auto* norm = std::get_if<BatchNormOp>(&node.op);
  if (norm == nullptr || norm->moments || node.inputs[0].output != 0) return false;
  const auto* conv = std::get_if<Conv2dOp>(&graph.node(node.inputs[0].node).op);
  return conv != nullptr && !conv->epilogue.max_pool;
}

}  // namespace

Graph GatherMoments(const Graph& graph) {
  GraphCopy copy(graph);
  const bool trains = graph.loss().valid();
  const std::vector<std::vector<NodeId>> readers = ReadersOf(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    Node node = graph.node(id);
    for (Value& input : node.inputs) input = copy.At(input);
    if (trains && ReadsConvolution(graph, graph.node(id))) {
      std::get<BatchNormOp>(node.op).moments = true;
      const NodeId conv = node.inputs[0].node;
      node.inputs.insert(node.inputs.end(), {Value{conv, 1}, Value{conv, 2}});
    }
    const auto norm = std::ranges::find_if(readers[id], [&](NodeId reader) {
      return graph.node(reader).inputs[0] == Value{id, 0} && ReadsConvolution(graph, graph.node(reader));
    });
    if (trains && norm != readers[id].end()) {
      std::get<Conv2dOp>(node.op).epilogue.moments = true;
      const ValueSpec channels = graph.spec(graph.node(*norm).inputs[1]);
      node.outputs.insert(node.outputs.end(), {channels, channels});
    }
    copy.Map(id, copy.Add(std::move(node)));
  }
  return std::move(copy).Finish();
}

}  // namespace trainyard::engine
