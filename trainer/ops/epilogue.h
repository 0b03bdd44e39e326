// The backward step through an Epilogue, shared by dense and conv2d.
#pragma once

#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// d loss / d z, where z (of `z_spec`) is the product before bias, sum, pool and activation, from
// the gradient of output 0. Adds at most one node.
Value EpilogueGradient(const Epilogue& epilogue, const ValueSpec& z_spec, GradientContext& context);
// FLOPs of bias, sum, pool and activation over a product of z_elements with out_elements results.
int64_t EpilogueFlops(const Epilogue& epilogue, int64_t z_elements, int64_t out_elements);

}  // namespace trainyard::engine
