// The entries of a folder that people see.
#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// Those whose names do not begin with a dot, sorted by name. InvalidArgument: more than 2^27 of
// them; else FileError's (file_error.h).
absl::StatusOr<std::vector<std::filesystem::directory_entry>> VisibleEntries(const std::filesystem::path& folder);

}  // namespace trainyard::engine
