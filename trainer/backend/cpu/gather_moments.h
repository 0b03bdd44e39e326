// Gathers the statistics of a batch where a convolution stores it.
#pragma once

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// A graph that was laid out, where a Conv2d in front of a BatchNorm leaves the mean and the
// variance that this needs (Epilogue::moments, BatchNormOp::moments). For forward graphs, with a
// loss only: all others take the moving statistics.
Graph GatherMoments(const Graph& graph);

}  // namespace trainyard::engine
