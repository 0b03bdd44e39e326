// Joins a dense layer with the cross-entropy of its outputs.
#pragma once

#include <cstdint>

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// Fewer classes are few panels, whose epilogue costs more than a pass over logits in a cache.
inline constexpr int64_t kLeastJoinedClasses = 512;

// A graph that was laid out, where one DenseCrossEntropyOp stands for Dense, SoftmaxCrossEntropy
// and, where it reads the same scores and labels, CorrectCount. The scores must lie in rows. No
// other node may read the scores or their probabilities. The graph may not name them as outputs.
// For forward graphs: the gradient rule of the op leaves logits and their gradient out too.
Graph JoinCrossEntropy(const Graph& graph, int64_t least_classes = kLeastJoinedClasses);

}  // namespace trainyard::engine
