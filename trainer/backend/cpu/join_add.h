// Joins a convolution with the sum of branches behind it.
#pragma once

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// A graph that was laid out, where one Conv2d with Epilogue::add stands for Conv2d → Add of two
// terms, and for a relu or another activation behind it. The values between them have one reader.
// The graph does not name these values as outputs. If both terms are convolutions, the later
// convolution makes the sum. For forward graphs: the gradient rule of Conv2d knows the term.
Graph JoinAdds(const Graph& graph);

}  // namespace trainyard::engine
