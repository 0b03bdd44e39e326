// A job's graph as text, for people.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"

namespace trainyard::engine {

// Of the TrainingJob file or training.json `path` with its overrides: the model in a line, then nodes, shapes, parameters, floating-point
// operations and memory of one training step at the job's batch size, as `backend` plans it. Errors are ReadTrainingFile's.
absl::StatusOr<std::string> Inspect(const std::string& path, std::span<const std::string> overrides, Backend& backend);

}  // namespace trainyard::engine
