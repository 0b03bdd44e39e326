// The error of a call of the file system, as a status.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace trainyard::engine {

// errno as a status whose code says what to do: NotFound, PermissionDenied, AlreadyExists,
// ResourceExhausted (disk or quota full, too many open files), Unavailable (a device or the server
// of a volume does not answer) or Internal. The message is "cannot <action> <path>: <reason>".
absl::Status FileError(int error, std::string_view action, std::string_view path);

// A later write of the same file may succeed: there may be room, or the volume may answer again.
bool MayPass(const absl::Status& status);

// What to do about such an error: "make room there", "raise that limit" (of open files), "mend the
// volume".
std::string_view NextStepFor(const absl::Status& status);

}  // namespace trainyard::engine
