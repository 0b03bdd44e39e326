// The words for an errno.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace trainyard::engine {

// The system's own; with the setting to look at where a limit of open files is the reason: "Too
// many open files, see ulimit -n".
std::string ErrorText(int error);

// As absl::ErrnoToStatus, with these words: "<what>: <ErrorText(error)>".
absl::Status ErrnoStatus(int error, std::string_view what);

}  // namespace trainyard::engine
