// The end of a command that only prints.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::engine {

// The text to standard output, or the error to the log. Returns the exit code.
int PrintText(const absl::StatusOr<std::string>& text);
// The same of a command that has printed all but its error.
int PrintStatus(const absl::Status& status);

}  // namespace trainyard::engine
