// Fusion: a product and the element-wise work behind it become one node.
#pragma once

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// A graph that computes the same outputs with fewer nodes: Conv2d → Bias → {Activation, MaxPool in either order} and Dense → Bias →
// Activation, each part optional, become one Conv2d or Dense with an Epilogue, where the values between have one reader and are no outputs.
// BatchNorm → relu becomes one BatchNorm in the same way. The fused node takes the first one's name; parameters keep their keys. For
// forward graphs: run it before AddGradients, whose rules know epilogues (the activation's gradient and the un-pooling are then one node,
// the bias's gradient comes with the weights').
Graph FuseEpilogues(const Graph& graph);

}  // namespace trainyard::engine
