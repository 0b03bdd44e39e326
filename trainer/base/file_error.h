// The error of a call of the file system, as a status.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace trainyard::engine {

// errno as a status whose code says what to do: NotFound, PermissionDenied, AlreadyExists,
// ResourceExhausted (disk or quota full) or Internal. The message is "cannot <action> <path>:
// <reason>".
absl::Status FileError(int error, std::string_view action, std::string_view path);

}  // namespace trainyard::engine
