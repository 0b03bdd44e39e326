// A graph as text for people: `trainyard-trainer inspect` prints it.
#pragma once

#include <string>

#include "trainer/graph/graph.h"
#include "trainer/graph/memory_plan.h"

namespace trainyard::engine {

// A table of the nodes (name, op, output shape, MFLOP), then a table of the parameters (key, name,
// shape, elements). Last come the totals of a step: parameters, floating-point operations and
// memory. Ends with a line end.
std::string DescribeGraph(const Graph& graph, const MemoryPlan& plan);

}  // namespace trainyard::engine
