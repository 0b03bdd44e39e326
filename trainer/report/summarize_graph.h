// Our graph in TensorBoard's terms.
#pragma once

#include <vector>

#include "trainer/graph/graph.h"
#include "trainer/report/graph_summary.h"

namespace trainyard::engine {

// One node a node, in order, with every input's name ("conv1" or "conv1:1" for its second output)
// and all output shapes.
std::vector<GraphSummaryNode> SummarizeGraph(const Graph& graph);

}  // namespace trainyard::engine
