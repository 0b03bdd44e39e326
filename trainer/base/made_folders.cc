#include "trainer/base/made_folders.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {

absl::StatusOr<MadeFolders> MadeFolders::Make(const std::string& path) {
  MadeFolders folders;
  std::filesystem::path part;
  for (const std::filesystem::path& name : std::filesystem::path(path)) {
    part /= name;
    std::error_code error;
    if (std::filesystem::create_directory(part, error)) folders.made_.push_back(part.string());
    if (error) return FileError(error.value(), "create folder", part.string());
  }
  TY_RETURN_IF_ERROR(MakeDirectories(path));
  return folders;
}

MadeFolders::~MadeFolders() {
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    if (::rmdir(folder->c_str()) != 0) return;  // it is filled
  }
}

}  // namespace trainyard::engine
