#include "trainer/graph/prune.h"

#include <utility>
#include <vector>

#include "trainer/graph/graph_copy.h"

namespace trainyard::engine {

Graph WithoutUnneeded(const Graph& graph) {
  std::vector<bool> needed(graph.nodes().size());
  for (const auto& [name, value] : graph.outputs()) needed[value.node] = true;
  for (const ParameterResult& result : graph.results()) needed[result.value.node] = true;
  for (const Value& next : graph.next_states()) {
    if (next.valid()) needed[next.node] = true;
  }
  if (graph.loss().valid()) needed[graph.loss().node] = true;
  for (const NodeId input : graph.inputs()) needed[input] = true;
  for (auto id = static_cast<NodeId>(graph.nodes().size() - 1); id >= 0; --id) {
    if (!needed[id]) continue;
    for (const Value& input : graph.node(id).inputs) needed[input.node] = true;
  }
  GraphCopy copy(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (needed[id]) copy.Copy(id);
  }
  return std::move(copy).Finish();
}

}  // namespace trainyard::engine
