// Fusion: a product and the element-wise work behind it become one node.
#pragma once

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// A graph with the same outputs and fewer nodes. Two chains become one Conv2d or Dense with an
// Epilogue: Conv2d → Bias → {Activation, MaxPool in either order}, and Dense → Bias → Activation.
// Each part behind the first is optional. BatchNorm → relu becomes one BatchNorm. The values
// between must have one reader and be no outputs. The fused node takes the first node's name;
// parameters keep their keys. For forward graphs: run it before AddGradients, whose rules know
// epilogues. Backward, the activation's gradient and the un-pooling are then one node, and the
// bias's gradient comes with that of the weights.
Graph FuseEpilogues(const Graph& graph);

}  // namespace trainyard::engine
