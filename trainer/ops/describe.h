// A graph as text, for people: what `trainyard-trainer inspect` prints.
#pragma once

#include <string>

#include "trainer/graph/graph.h"
#include "trainer/graph/memory_plan.h"

namespace trainyard::engine {

// Tables of the nodes (name, op, output shape, MFLOP) and of the parameters (key, name, shape, elements), then the totals:
// parameters, floating-point operations and memory of one step. Ends with a line end.
std::string DescribeGraph(const Graph& graph, const MemoryPlan& plan);

}  // namespace trainyard::engine
