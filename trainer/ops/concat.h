// Features side by side, and parts of them.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// Two or more [N, .., C_i] of one layout → [N, .., sum of C_i]
absl::StatusOr<ValueSpec> InferConcat(std::span<const ValueSpec> parts);

void AddGradient(const ConcatOp& op, GradientContext& context);

}  // namespace trainyard::engine
