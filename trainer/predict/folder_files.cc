#include "trainer/predict/folder_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "trainer/base/file_error.h"
#include "trainer/picture/picture_name.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

}  // namespace

absl::StatusOr<std::vector<std::string>> PicturesIn(const std::string& folder) {
  std::vector<std::string> pictures;
  std::string folder_within;  // one of them, to be named where there is no picture
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename().native().starts_with('.')) continue;
    std::error_code unknown;
    if (entry->is_directory(unknown)) {
      folder_within = path.native();
    } else if (IsPictureName(path.native())) {
      pictures.push_back(path.native());
    }
  }
  if (error) return FileError(error.value(), "read the folder", folder);
  if (pictures.empty()) {
    return absl::InvalidArgumentError(fmt::format("{} is a folder without .png or .jpg pictures; name files, or a folder of pictures{}",
                                                  folder, folder_within.empty() ? "" : " such as " + folder_within));
  }
  std::ranges::sort(pictures);
  return pictures;
}

std::vector<std::string> FilesOfFolders(const std::vector<std::string>& files) {
  std::vector<std::string> all;
  for (const std::string& file : files) {
    std::error_code unknown;
    absl::StatusOr<std::vector<std::string>> pictures = std::vector{file};
    if (fs::is_directory(file, unknown)) pictures = PicturesIn(file);
    if (pictures.ok()) {
      std::ranges::move(*pictures, std::back_inserter(all));
    } else {
      all.push_back(file);
    }
  }
  return all;
}

}  // namespace trainyard::engine
