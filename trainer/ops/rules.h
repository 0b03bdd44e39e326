// What the rest of the engine may ask of any op without knowing it. The answers stand in each family's own file.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// Floating-point operations of one run (a multiply-add counts two; additions, comparisons and transcendentals one each).
int64_t Flops(const Graph& graph, NodeId node);
// The input with which output 0 always shares memory; such a node has no kernel.
std::optional<int> AliasedInput(const Op& op);
// Output 0 may be written over input `i` of the same size: every backend's kernel reads an element there before it writes it.
bool MayRunInPlace(const Op& op, int i);

}  // namespace trainyard::engine
