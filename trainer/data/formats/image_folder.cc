#include "trainer/data/formats/image_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "trainer/base/counted.h"
#include "trainer/base/file.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/visible_entries.h"
#include "trainer/data/class_name.h"
#include "trainer/picture/picture_name.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostImages = size_t{1} << 27;
constexpr size_t kMostClasses = 1 << 16;
constexpr std::array<std::string_view, 13> kOtherPictures = {".gif",  ".bmp", ".webp", ".tif", ".tiff", ".heic", ".heif",
                                                             ".avif", ".ppm", ".pgm",  ".jp2", ".jxl",  ".svg"};
constexpr std::array<std::string_view, 9> kSplits = {"train", "training", "val",  "valid",     "validation",
                                                     "test",  "testing",  "eval", "evaluation"};

bool IsFolder(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error);
}

// Lists the pictures of one class after the other.
class Walker {
 public:
  explicit Walker(std::string dir) : dir_(std::move(dir)) {}

  absl::Status Class(const std::string& name, int32_t label) {
    label_ = label;
    return Folder(name);
  }

  // Files that are no pictures are told, once in a process.
  std::vector<ImageFile> Done() && {
    if (others_ > 0) {
      LogInfoOnce("{}: {} left out, such as {}: only names that end in .png, .jpg or .jpeg count", dir_,
                  Counted(others_, "file is", "files are"), first_other_);
    }
    return std::move(files_);
  }
  size_t found() const { return files_.size(); }

 private:
  using FolderId = std::pair<dev_t, ino_t>;

  absl::Status Folder(const std::string& path) {
    const fs::path folder = fs::path(dir_) / path;
    struct stat info{};
    if (::stat(folder.c_str(), &info) != 0) return FileError(errno, "read the folder", folder.string());
    const FolderId id(info.st_dev, info.st_ino);
    if (std::ranges::find(inside_, id) != inside_.end()) {
      return absl::InvalidArgumentError(fmt::format("{} is a link to a folder that it lies in; remove it", LastLink(path).string()));
    }
    inside_.push_back(id);
    TY_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> entries, VisibleEntries(folder));
    for (const fs::directory_entry& entry : entries) {
      const std::string below = path + "/" + entry.path().filename().string();
      TY_RETURN_IF_ERROR(IsFolder(entry) ? Folder(below) : File(entry, below));
    }
    inside_.pop_back();
    return absl::OkStatus();
  }

  // The deepest link on the way to a folder that was reached again. Files behind it have another
  // path, and are not to be removed.
  fs::path LastLink(const fs::path& path) const {
    std::error_code error;
    for (fs::path part = path; !part.empty(); part = part.parent_path()) {
      if (const fs::path whole = dir_ / part; fs::is_symlink(whole, error)) return whole;
    }
    return dir_ / path;
  }

  absl::Status File(const fs::directory_entry& entry, const std::string& path) {
    const std::string extension = absl::AsciiStrToLower(entry.path().extension().string());
    if (std::ranges::find(kOtherPictures, extension) != kOtherPictures.end()) {
      return absl::InvalidArgumentError(
          fmt::format("{} is a {} picture, expected .png or .jpg; convert it", entry.path().string(), extension));
    }
    if (!IsPictureName(extension)) {
      if (others_++ == 0) first_other_ = path;
      return absl::OkStatus();
    }
    std::error_code error;
    if (!entry.is_regular_file(error)) {
      return absl::InvalidArgumentError(
          fmt::format("{} is named as a picture, but it is no file, or a link that leads nowhere", entry.path().string()));
    }
    if (files_.size() >= kMostImages) return absl::InvalidArgumentError(fmt::format("{} has more than {} pictures", dir_, kMostImages));
    files_.push_back({.path = path, .label = label_});
    return absl::OkStatus();
  }

  const std::string dir_;
  int32_t label_ = 0;
  std::vector<FolderId> inside_;  // the folders that the present one lies in, and itself
  std::vector<ImageFile> files_;
  int64_t others_ = 0;
  std::string first_other_;
};

absl::StatusOr<std::vector<std::string>> FoldersIn(const std::string& dir) {
  TY_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> entries, VisibleEntries(dir));
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : entries) {
    if (IsFolder(entry)) names.push_back(entry.path().filename().string());
  }
  return names;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ClassFoldersOf(const std::string& dir) {
  TY_ASSIGN_OR_RETURN(std::vector<std::string> names, FoldersIn(dir));
  if (names.size() < 2 || names.size() > kMostClasses) {
    return absl::InvalidArgumentError(fmt::format("{} has {}, expected from 2 to {}: one of pictures for each class", dir,
                                                  Counted(static_cast<int64_t>(names.size()), "folder"), kMostClasses));
  }
  const auto is_split = [](const std::string& name) { return std::ranges::find(kSplits, name) != kSplits.end(); };
  if (std::ranges::all_of(names, is_split)) {
    return absl::InvalidArgumentError(
        fmt::format("{} has the folders {}, which are no classes; name them as train: {{folder: …}} and eval: {{folder: …}}", dir,
                    fmt::join(names, ", ")));
  }
  for (const std::string& name : names) {
    if (!IsClassName(name)) {
      return absl::InvalidArgumentError(
          fmt::format("{} has the folder \"{}\", expected a class's name: UTF-8 of at most 256 bytes without control characters; rename it",
                      dir, absl::CHexEscape(name)));
    }
  }
  return names;
}

absl::StatusOr<std::vector<ImageFile>> ListImages(const ImageFolder& folder) {
  TY_ASSIGN_OR_RETURN(const std::vector<std::string> found, FoldersIn(folder.dir));
  for (const std::string& name : found) {
    if (std::ranges::find(folder.classes, name) == folder.classes.end()) {
      return absl::InvalidArgumentError(
          fmt::format("{}/{} is none of the {} classes {}", folder.dir, name, folder.classes.size(),
                      fmt::join(folder.classes.begin(), folder.classes.begin() + std::min<size_t>(10, folder.classes.size()), ", ")));
    }
  }
  Walker walker(folder.dir);
  for (size_t label = 0; label < folder.classes.size(); ++label) {
    const std::string& name = folder.classes[label];
    const size_t before = walker.found();
    if (std::ranges::binary_search(found, name)) TY_RETURN_IF_ERROR(walker.Class(name, static_cast<int32_t>(label)));
    if (folder.every_class && walker.found() == before) {
      return absl::InvalidArgumentError(fmt::format("{}/{} has no .png or .jpg pictures, expected some of each class", folder.dir, name));
    }
  }
  if (walker.found() == 0) return absl::InvalidArgumentError(fmt::format("{} has no .png or .jpg pictures", folder.dir));
  return std::move(walker).Done();
}

}  // namespace trainyard::engine
