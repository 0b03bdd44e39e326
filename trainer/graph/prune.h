// Graphs without what nobody asks for.
#pragma once

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// The graph without the nodes that no output, result, next state or loss needs. Feeds, parameters
// and states stay, and keep their keys.
Graph WithoutUnneeded(const Graph& graph);

}  // namespace trainyard::engine
