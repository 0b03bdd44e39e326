#include "trainer/data/open/class_names.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/class_name.h"
#include "trainer/data/formats/image_folder.h"
#include "trainer/data/open/csv_fit.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMaxMetaBytes = 64 << 10;

// A name a line; blanks around it and empty lines do not count.
std::vector<std::string> NamesIn(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    names.push_back(line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1));
  }
  return names;
}

}  // namespace

std::string ClassFoldersDirOf(const DataConfig& config, const DataSplit& split) {
  return split.folder.empty() ? config.dir : (std::filesystem::path(config.dir) / split.folder).string();
}

absl::StatusOr<std::vector<std::string>> ClassNamesOf(const DataConfig& config, int classes) {
  if (!config.classes.empty()) return config.classes;
  if (config.format == DataConfig::Format::kCsv) {
    TY_ASSIGN_OR_RETURN(CsvFit fit, CsvFitOf(config, /*has_classes=*/true));
    return std::move(fit.classes);
  }
  if (config.format == DataConfig::Format::kImages) {
    return ClassFoldersOf(ClassFoldersDirOf(config, config.train));
  }
  if (config.format == DataConfig::Format::kCifar10) {
    const absl::StatusOr<std::string> text = ReadFile((std::filesystem::path(config.dir) / "batches.meta.txt").string(), kMaxMetaBytes);
    if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
    std::vector<std::string> names = text.ok() ? NamesIn(*text) : std::vector<std::string>();
    if (static_cast<int>(names.size()) == classes && std::ranges::all_of(names, IsClassName)) return names;
  }
  std::vector<std::string> numbers;
  for (int number = 0; number < classes; ++number) numbers.push_back(std::to_string(number));
  return numbers;
}

}  // namespace trainyard::engine
