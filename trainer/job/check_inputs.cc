#include "trainer/job/check_inputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "trainer/base/nearest_name.h"
#include "trainer/base/owned_fd.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

// Why it cannot be read; "" where it can.
std::string WhyNot(const fs::path& path, bool folder) {
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return std::generic_category().message(errno);
  struct stat info{};
  const bool known = ::fstat(fd.get(), &info) == 0;
  if (known && S_ISDIR(info.st_mode) != folder) return folder ? "it is a file, expected a folder" : "it is a folder, expected a file";
  return "";
}

// A file beside `path` with a name that is near to its own; or where relative names begin.
std::string Hint(const fs::path& path) {
  std::error_code error;
  std::vector<std::string> names;
  constexpr size_t kMost = 10'000;
  for (fs::directory_iterator entry(path.parent_path().empty() ? "." : path.parent_path(), error), end;
       !error && entry != end && names.size() < kMost; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  const std::string_view nearest = NearestName(path.filename().string(), names);
  if (!nearest.empty()) return fmt::format("; did you mean \"{}\"?", (path.parent_path() / nearest).string());
  if (path.is_absolute()) return "";
  return fmt::format("; relative paths begin at the working directory, {}", fs::current_path(error).string());
}

class Checker {
 public:
  Checker(const DataConfig& data, FieldErrors& errors) : data_(data), errors_(errors) {}

  void Split(const DataSplit& split, const std::string& path) {
    using Format = DataConfig::Format;
    switch (data_.format) {
      case Format::kSynthetic:
        return;
      case Format::kStore:
      case Format::kImages:
        return Folder(fs::path(data_.dir) / split.folder, path + ".folder");
      case Format::kNumpy:
        if (!split.archive.empty()) return File(InDir(split.archive), path + ".file");
        [[fallthrough]];
      case Format::kIdx:
        File(InDir(split.images), path + ".images");
        return File(InDir(split.labels), path + ".labels");
      case Format::kCifar10:
      case Format::kTfRecord:
      case Format::kParquet:
      case Format::kText:
      case Format::kCsv:
        break;
    }
    for (size_t i = 0; i < split.files.size(); ++i) File(InDir(split.files[i]), fmt::format("{}.files[{}]", path, i));
  }

  void File(const fs::path& file, std::string_view path) { Check(file, path, /*folder=*/false); }
  void Folder(const fs::path& folder, std::string_view path) { Check(folder, path, /*folder=*/true); }

 private:
  fs::path InDir(const std::string& name) const { return fs::path(data_.dir) / name; }

  void Check(const fs::path& path, std::string_view field, bool folder) {
    const std::string why = WhyNot(path, folder);
    if (why.empty()) return;
    std::error_code error;
    const std::string hint = fs::exists(path, error) ? "" : Hint(path);
    errors_.Add(field, fmt::format("cannot open {}: {}{}", path.string(), why, hint));
  }

  const DataConfig& data_;
  FieldErrors& errors_;
};

}  // namespace

void CheckInputs(const TrainingConfig& training, FieldErrors& errors) {
  Checker checker(training.data, errors);
  checker.Split(training.data.train, "spec.training.data.train");
  if (training.data.eval) checker.Split(*training.data.eval, "spec.training.data.eval");
  if (!training.init_from.empty()) checker.File(training.init_from, "spec.training.initFrom");
}

}  // namespace trainyard::engine
