// From panels of samples to rows and back: no arithmetic, see ValueSpec::rows.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// A batched value of real numbers → the same with `rows` turned over.
absl::StatusOr<ValueSpec> InferRelayout(const ValueSpec& x);

void AddGradient(const RelayoutOp& op, GradientContext& context);

}  // namespace trainyard::engine
