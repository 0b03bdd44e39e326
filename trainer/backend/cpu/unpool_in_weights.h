// Decides where the gradient of a max pool is made in the weights' gradient of the convolution that
// pools (PooledConv2dWeightGradientOp).
#pragma once

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// A graph that was laid out, with Epilogue::unpool_in_weights set for convolutions whose pool has
// windows that tile the image, and whose weight gradient sums directly on panels
// (panels_weight_gradient.h). In networks that is the first convolution: the gradient of an image,
// which few channels make large, is of no use. For forward graphs, in float32.
Graph UnpoolInWeights(const Graph& graph);

}  // namespace trainyard::engine
