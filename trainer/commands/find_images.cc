#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/commands/find_formats.h"
#include "trainer/data/formats/image_folder.h"
#include "trainer/picture/decode_image.h"
#include "trainer/picture/picture_name.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kSmallestSide = 16;
constexpr int64_t kLargestSide = 64;
constexpr size_t kLookedAt = 48;

// The folders of two splits, if the names say so.
struct Splits {
  std::string train;
  std::string eval;
};

std::optional<Splits> SplitsOf(const std::vector<std::string>& folders) {
  const auto first_of = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names) {
      if (std::ranges::find(folders, name) != folders.end()) return name;
    }
    return "";
  };
  const Splits splits{.train = first_of({"train", "training"}),
                      .eval = first_of({"val", "valid", "validation", "eval", "evaluation", "test", "testing"})};
  return splits.train.empty() ? std::nullopt : std::optional(splits);
}

// A shape that suits the pictures: their own where all are small and alike, else a square.
absl::StatusOr<Shape> ShapeFor(const std::string& dir, const std::vector<ImageFile>& files) {
  bool grey = true;
  bool alike = true;
  std::vector<int64_t> sides;  // the shorter ones
  Image first;
  absl::Status last_error;
  const size_t looked_at = std::min(kLookedAt, files.size());
  for (size_t i = 0; i < looked_at; ++i) {
    const std::string path = dir + "/" + files[i * files.size() / looked_at].path;
    TY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxImageBytes));
    absl::StatusOr<Image> image = DecodeImage(bytes);
    if (!image.ok()) {  // the training will name it
      last_error = WithContext(image.status(), path);
      continue;
    }
    for (size_t p = 0; grey && p < image->pixels.size(); p += kRgbChannels) {
      grey = image->pixels[p] == image->pixels[p + 1] && image->pixels[p] == image->pixels[p + 2];
    }
    if (sides.empty()) first = *image;
    alike = alike && image->height == first.height && image->width == first.width;
    sides.push_back(std::min(image->height, image->width));
  }
  if (sides.empty()) return last_error;
  const int64_t channels = grey ? 1 : kRgbChannels;
  if (alike && std::max(first.height, first.width) <= kLargestSide && sides[0] >= kSmallestSide)
    return Shape{first.height, first.width, channels};
  std::ranges::sort(sides);
  const int64_t side = std::clamp(sides[sides.size() / 2], kSmallestSide, kLargestSide);
  return Shape{side, side, channels};
}

bool HasPictures(const std::filesystem::path& dir) {
  std::error_code error;
  int looked_at = 0;
  for (std::filesystem::recursive_directory_iterator entry(dir, error), end; !error && entry != end && looked_at < 10'000;
       entry.increment(error)) {
    if (IsPictureName(entry->path().native())) return true;
    ++looked_at;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::optional<FoundData>> FindImages(const FolderContent& content) {
  const auto has_pictures = [&](const std::string& folder) { return HasPictures(std::filesystem::path(content.dir) / folder); };
  if (std::ranges::none_of(content.folders, has_pictures)) return std::nullopt;
  const std::optional<Splits> splits = SplitsOf(content.folders);
  const std::string dir = splits ? content.dir + "/" + splits->train : content.dir;
  TY_ASSIGN_OR_RETURN(const std::vector<std::string> classes, ClassFoldersOf(dir));
  TY_ASSIGN_OR_RETURN(const std::vector<ImageFile> files, ListImages({.dir = dir, .classes = classes, .every_class = true}));
  FoundData found{.examples = static_cast<int64_t>(files.size()), .classes = static_cast<int64_t>(classes.size())};
  TY_ASSIGN_OR_RETURN(found.input, ShapeFor(dir, files));
  found.summary = fmt::format("{} pictures of {} classes ({})", files.size(), classes.size(), NamesText(classes));
  found.data = {"format: images"};
  if (splits) found.data.push_back(fmt::format("train: {{folder: {}}}", splits->train));
  if (splits && !splits->eval.empty()) {
    found.data.push_back(fmt::format("eval: {{folder: {}}}", splits->eval));
  } else {
    found.data.emplace_back("evalFraction: 0.2                    # of each class");
  }
  found.data.emplace_back("fit: crop                            # or stretch");
  constexpr int64_t kCachedBytes = int64_t{1} << 30;
  if (found.examples * found.input.elements() <= kCachedBytes)
    found.data.emplace_back("cache: true                          # decoded pictures stay in memory");
  return found;
}

}  // namespace trainyard::engine
