// Rows of a table, looked up by number.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// ids i32 [N, ..], table [V, D] → [N, .., D]. That ids are below V is the feed's limit to check.
absl::StatusOr<ValueSpec> InferEmbedding(const ValueSpec& ids, const ValueSpec& table);

int64_t OpFlops(const EmbeddingGradientOp& op, const NodeView& node);
void AddGradient(const EmbeddingOp& op, GradientContext& context);

}  // namespace trainyard::engine
