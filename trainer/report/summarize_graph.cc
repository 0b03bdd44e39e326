#include "trainer/report/summarize_graph.h"

#include <fmt/format.h>

namespace trainyard::engine {

std::vector<GraphSummaryNode> SummarizeGraph(const Graph& graph) {
  std::vector<GraphSummaryNode> summary;
  for (const Node& node : graph.nodes()) {
    GraphSummaryNode& entry = summary.emplace_back();
    entry.name = node.name;
    entry.op = std::string(OpName(node.op));
    for (const Value& input : node.inputs) {
      const std::string& name = graph.node(input.node).name;
      entry.inputs.push_back(input.output == 0 ? name : fmt::format("{}:{}", name, input.output));
    }
    for (const ValueSpec& output : node.outputs) entry.output_shapes.push_back(output.shape);
  }
  return summary;
}

}  // namespace trainyard::engine
