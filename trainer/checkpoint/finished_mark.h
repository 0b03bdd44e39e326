// <checkpoints>/finished: tells the job's evaluator that no checkpoint comes any more. The chief
// writes it last and removes it when it starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::engine {

absl::Status MarkFinished(const std::string& dir, int64_t last_step);
absl::Status ClearFinished(const std::string& dir);
// The step of the last checkpoint; nothing while the training goes on. DataLoss: the file is not a
// mark.
absl::StatusOr<std::optional<int64_t>> FinishedStep(const std::string& dir);

}  // namespace trainyard::engine
