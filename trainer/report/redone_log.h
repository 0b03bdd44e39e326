// <checkpoints>/redone.json: the steps that a synchronous job had to do again, kept over restarts of the chief, which writes it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/report/report.h"

namespace trainyard::engine {

// Empty where there is no such file. DataLoss: it is damaged.
absl::StatusOr<std::vector<RedoneRecord>> ReadRedone(const std::string& dir);
// Adds one durably. The oldest go when there are very many.
absl::Status AddRedone(const std::string& dir, const RedoneRecord& record);
// At the start of a run.
absl::Status ClearRedone(const std::string& dir);

}  // namespace trainyard::engine
