// A file that a user names for the output of a command.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace trainyard::engine {

// Replaces the file as ReplaceFile does; of a link, the file that it leads to. Into a device or a
// pipe the bytes are written. FileError names the path.
absl::Status WriteOutputFile(const std::string& path, std::string_view bytes);

}  // namespace trainyard::engine
