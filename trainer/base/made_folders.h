// Folders that a command makes for its output, and takes back where it writes none.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// Movable.
class MadeFolders {
 public:
  // Makes the folder and its parents where they are absent. FileError names the path; what was made
  // until then is gone again.
  static absl::StatusOr<MadeFolders> Make(const std::string& path);

  // Removes those of them that it made and that are empty.
  ~MadeFolders();
  MadeFolders(MadeFolders&&) = default;
  MadeFolders& operator=(MadeFolders&&) = delete;

 private:
  MadeFolders() = default;

  std::vector<std::string> made_;  // parents first
};

}  // namespace trainyard::engine
