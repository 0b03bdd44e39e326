// Decides which values of a graph lie in panels of samples and which row-major ("in rows").
#pragma once

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// The forward graph with ValueSpec::row_major set. A RelayoutOp stands where a node reads a value
// that lies the other way, once for all readers of the value.
//   - Recurrent layers and embeddings work in rows, since batches of sequences may be small: there outputs are the vector lanes.
//   - So does the product that makes a recurrent layer's input.
//   - Convolutions, pools and batch normalisations work in panels.
//   - Every other node works as its first input lies.
//   - An input of the graph lies in rows where all its readers work in rows, else in panels.
Graph LayOut(const Graph& graph);

}  // namespace trainyard::engine
