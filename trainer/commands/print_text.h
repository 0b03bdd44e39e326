// The end of a command that only prints.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// The text to standard output, or the error to the log. Returns the exit code.
int PrintText(const absl::StatusOr<std::string>& text);

}  // namespace trainyard::engine
