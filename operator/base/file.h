// Small files whole: configuration, tokens, certificates.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace trainyard::control {

// The file's text without trailing white space. Errors name the path and the problem (missing, a
// folder, not readable, longer than `max_bytes`).
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);

}  // namespace trainyard::control
