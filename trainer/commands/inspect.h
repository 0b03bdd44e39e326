// A job's graph as text, for people.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"

namespace trainyard::engine {

// Describes the TrainingJob file or training.json `path` with its overrides. The model comes first,
// in a line. Then comes one training step at the job's batch size, as `backend` plans it. The step
// has nodes, shapes, parameters, floating-point operations and memory. Errors are
// ReadTrainingFile's.
absl::StatusOr<std::string> Inspect(const std::string& path, std::span<const std::string> overrides, Backend& backend);

}  // namespace trainyard::engine
