// Folders where files are expected.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// The pictures in a folder (picture_name.h), by name. Folders within it and names that begin with a
// dot are left out. An error names a folder that cannot be read or has no picture.
absl::StatusOr<std::vector<std::string>> PicturesIn(const std::string& folder);

// `files` with each folder replaced by the pictures in it. A folder without any stays.
std::vector<std::string> FilesOfFolders(const std::vector<std::string>& files);

}  // namespace trainyard::engine
