#include "trainer/launch/new_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {

absl::StatusOr<std::string> MakeNewFolder(const std::string& path) {
  TY_RETURN_IF_ERROR(MakeDirectories(std::filesystem::path(path).parent_path().string()));
  std::string folder = path;
  for (int next = 2; mkdir(folder.c_str(), 0777) != 0; ++next) {
    if (errno != EEXIST) return FileError(errno, "create folder", folder);
    folder = fmt::format("{}-{}", path, next);
  }
  return folder;
}

}  // namespace trainyard::engine
