// Which values in rows lie in memory in 16 bits, where products take operands of bfloat16. Those in
// panels are of backend/narrow_values.h.
#pragma once

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// A forward graph that was laid out and joined, with ValueSpec::narrow set for two kinds of values
// that gradients read: the terms of a DenseCrossEntropyOp, as bfloat16, and the gates that an LSTM
// keeps, as fractions. What the graph names, or a node of it reads, stays f32.
Graph NarrowRows(const Graph& graph);

}  // namespace trainyard::engine
