// A language model for one token at a time.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/model/model_spec.h"

namespace trainyard::engine {

// The model for a sequence of a single token. Its layers carry their state to the next token, so
// that a text of any length is read one token after the other. The parameters are the same.
// InvalidArgument: the model reads no tokens, gives no class for each of them, or has a layer that
// does not read forward step by step.
absl::StatusOr<ModelSpec> OneStepOf(ModelSpec spec);

}  // namespace trainyard::engine
