// Which values of a graph lie in memory in 16 bits, where products take operands of 16 bits: those
// of Precision::kBfloat16 or of kFloat16.
#pragma once

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// Between which ops values are held in 16 bits.
enum class NarrowReach {
  kConvolutions,  // convolutions, as long as nothing is pooled
  kDense,         // convolutions, their pools, dropout, and the dense layers behind them
};

// The forward graph with ValueSpec::narrow set for what convolutions leave, and for what batch
// normalisations, sums and activations make of it, with kDense dropout and Reshape too. Those read
// and write values of one kind; a convolution takes either, with kDense a dense layer too.
// RelayoutOps stand before all other ops that read such a value. Gradients follow: they are held as
// the values that they belong to. So is the gradient before a pool that a convolution does itself,
// where its windows tile the image: with kConvolutions always, with kDense where the pooled value
// is. Values have an even number of channels. What the graph names as an output, a result, a state
// or its loss stays f32.
Graph NarrowValues(const Graph& graph, NarrowReach reach);

}  // namespace trainyard::engine
