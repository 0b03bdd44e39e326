// A folder for a run that has no name from its user.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// Makes a folder that was not there before, and its parents: `path`, or where that is taken
// `path`-2, `path`-3 and so on. Returns its path. Several processes may ask for one path at once:
// each gets a folder of its own. An error names the folder.
absl::StatusOr<std::string> MakeNewFolder(const std::string& path);

}  // namespace trainyard::engine
