// Questions that the rest of the engine may ask of any op. The answers stand in each family's own
// file.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "trainer/graph/graph.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// Floating-point operations of one run (a multiply-add counts two; additions, comparisons and
// transcendentals one each).
int64_t Flops(const Graph& graph, NodeId node);
// Bytes of all inputs and outputs, each counted once: what one run moves where no cache holds them.
int64_t BytesMoved(const Graph& graph, NodeId node);
// Adds the backward nodes of a forward op. Unimplemented for ops that have no gradient.
absl::Status AddOpGradient(const Op& op, GradientContext& context);
// The input with which output 0 always shares memory; such a node has no kernel.
std::optional<int> AliasedInput(const Op& op);
// Output 0 may lie in the memory of input `i` if both have the same size. Every backend's kernel of
// the op bears that.
bool MayRunInPlace(const Op& op, int i);
// Output 0 is a gradient [rows, ..] that is zero but for the rows that the ids in input 0 name: its
// kernel takes KernelContext::touched_rows.
bool FillsRowsOfIds(const Op& op);

}  // namespace trainyard::engine
