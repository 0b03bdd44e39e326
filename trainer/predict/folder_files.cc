#include "trainer/predict/folder_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "trainer/base/status_macros.h"
#include "trainer/base/visible_entries.h"
#include "trainer/picture/picture_name.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

}  // namespace

absl::StatusOr<std::vector<std::string>> PicturesIn(const std::string& folder) {
  TY_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> entries, VisibleEntries(folder));
  std::vector<std::string> pictures;
  std::string folder_within;  // one of them, to be named where there is no picture
  for (const fs::directory_entry& entry : entries) {
    std::error_code unknown;
    const std::string path = entry.path().string();
    if (entry.is_directory(unknown)) {
      folder_within = path;
    } else if (IsPictureName(path)) {
      pictures.push_back(path);
    }
  }
  if (pictures.empty()) {
    return absl::InvalidArgumentError(fmt::format("{} is a folder without .png or .jpg pictures; name files, or a folder of pictures{}",
                                                  folder, folder_within.empty() ? "" : " such as " + folder_within));
  }
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
