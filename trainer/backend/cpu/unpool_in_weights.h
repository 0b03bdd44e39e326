// Decides where the gradient of a max pool is made in the weights' gradient of the convolution that
// pools (PooledConv2dWeightGradientOp).
#pragma once

#include "trainer/graph/graph.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine {

// A graph that was laid out, with Epilogue::unpool_in_weights set for convolutions whose pool has
// windows that tile the image. In float32 those whose weight gradient sums directly on panels
// (panels_weight_gradient.h), in bfloat16 those whose pooled value is narrow. In networks that is
// the first convolution: the gradient of an image, which few channels make large, is of no use. For
// forward graphs.
Graph UnpoolInWeights(const Graph& graph, Precision precision);

}  // namespace trainyard::engine
