#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/commands/find_formats.h"
#include "trainer/commands/found_data.h"
#include "trainer/picture/picture_name.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kValidation = {"val", "valid", "validation", "eval", "evaluation"};

// The runs of letters in a name, in lower case.
std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words;
  bool within = false;
  for (const char c : name) {
    const bool letter = absl::ascii_isalpha(static_cast<unsigned char>(c));
    if (letter && !within) words.emplace_back();
    if (letter) words.back() += absl::ascii_tolower(static_cast<unsigned char>(c));
    within = letter;
  }
  return words;
}

// Lower-case letters, digits and '-', beginning with a letter.
std::string JobName(const fs::path& path) {
  std::string name;
  fs::path whole = fs::absolute(path).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "DIR/"
  for (const char c : absl::AsciiStrToLower(whole.stem().string())) {
    const bool usable = absl::ascii_isalnum(static_cast<unsigned char>(c));
    if (usable || (!name.empty() && name.back() != '-')) name += usable ? c : '-';
  }
  if (name.empty() || !absl::ascii_isalpha(static_cast<unsigned char>(name[0]))) name = "data-" + name;
  name = name.substr(0, 40);
  while (name.ends_with('-')) name.pop_back();
  return name;
}

absl::StatusOr<FolderContent> ContentOf(const fs::path& path) {
  FolderContent content;
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    content.dir = path.parent_path().string();
    content.files = {path.filename().string()};
    return content;
  }
  content.dir = path.string();
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code ignored;
    (entry->is_directory(ignored) ? content.folders : content.files).push_back(name);
  }
  if (error) return FileError(error.value(), "read", path.string());
  std::ranges::sort(content.folders);
  std::ranges::sort(content.files);
  return content;
}

// Pictures beside a table that is none by itself, such as one of their names and classes.
absl::Status WithPictures(const absl::Status& status, const FolderContent& content) {
  const auto pictures = std::ranges::count_if(content.files, [](const std::string& file) { return IsPictureName(file); });
  if (pictures == 0) return status;
  return absl::Status(status.code(), fmt::format("{}; pictures, as the {} beside it, go into a folder for each class",
                                                 std::string(status.message()), pictures));
}

}  // namespace

bool IsEvaluation(std::string_view file) {
  return std::ranges::any_of(WordsOf(file), [](const std::string& word) {
    return word.starts_with("test") || std::ranges::find(kValidation, word) != kValidation.end();
  });
}

void SortTrainFirst(std::vector<std::string>& files) {
  const auto trains = [](const std::string& name) {
    return std::ranges::any_of(WordsOf(name), [](const std::string& word) { return word.starts_with("train"); });
  };
  std::ranges::sort(files, {}, [&](const std::string& name) { return std::pair(!trains(name), name); });
}

std::string EvaluationAmong(const std::vector<std::string>& files) {
  std::string found;
  for (size_t i = 1; i < files.size(); ++i) {
    if (IsEvaluation(files[i])) found = files[i];  // sorted: test.csv, val.csv
  }
  return found;
}

void NoteLeftOut(const std::vector<std::string>& files, const std::string& eval, std::string_view hint, FoundData& found) {
  std::vector<std::string> others;
  for (const std::string& file : files) {
    if (file != files[0] && file != eval) others.push_back(YamlText(file));
  }
  if (others.empty()) return;
  const std::string note = fmt::format("{} trains; {} left out: {}", YamlText(files[0]),
                                       others.size() == 1 ? "1 file is" : fmt::format("{} files are", others.size()), NamesText(others));
  found.notes.push_back(fmt::format("{}{}", note, hint));
  found.data.push_back("# " + note);
}

std::string YamlText(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string NamesText(const std::vector<std::string>& names) {
  constexpr size_t kListed = 8;
  const size_t listed = std::min(kListed, names.size());
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + listed, ", "), names.size() > listed ? ", …" : "");
}

int64_t EvaluationCut(int64_t examples) { return examples - std::max<int64_t>(1, examples / 10); }

void NoteMissingClasses(std::span<const int64_t> labels, int64_t cut, FoundData& found) {
  const auto classes_of = [](std::span<const int64_t> part) { return std::set<int64_t>(part.begin(), part.end()).size(); };
  const size_t all = classes_of(labels);
  const size_t train = classes_of(labels.first(static_cast<size_t>(cut)));
  const size_t eval = classes_of(labels.subspan(static_cast<size_t>(cut)));
  if (train == all && eval == all) return;
  const std::string note =
      fmt::format("of {} classes the training's range has {}, the evaluation's {}: shuffle the file if it is sorted, or give other ranges",
                  all, train, eval);
  found.notes.push_back(note);
  found.data.push_back("# " + note);
}

absl::StatusOr<FoundData> FindData(const std::string& path, const std::string& label) {
  TY_ASSIGN_OR_RETURN(FolderContent content, ContentOf(path));
  content.label = label;
  for (const auto find : {FindImages, FindCifar10, FindIdx, FindNpz, FindTfRecords, FindParquet, FindCsv, FindText}) {
    absl::StatusOr<std::optional<FoundData>> looked = find(content);
    if (!looked.ok()) return WithPictures(looked.status(), content);
    std::optional<FoundData>& found = *looked;
    if (!found) continue;
    if (!label.empty() && find != FindCsv) {
      return absl::InvalidArgumentError(
          fmt::format("--label: found \"{}\" for {}, expected none: only rows of CSV have columns to choose from", label, found->summary));
    }
    if (found->classes == 1) {
      return absl::InvalidArgumentError(
          fmt::format("{} has {}, expected two classes or more: a model would have nothing to tell apart", path, found->summary));
    }
    found->name = JobName(path);
    if (!content.dir.empty()) found->data.insert(found->data.begin() + 1, fmt::format("dir: {}", YamlText(content.dir)));
    return *std::move(found);
  }
  return absl::NotFoundError(
      fmt::format("{} holds none of these: folders of .png and .jpg files, CIFAR-10's data_batch_1.bin, IDX files named images and labels, "
                  "an .npz archive, .tfrecord files, .parquet files, .csv files, .txt files. docs/data.md has the fields for other formats",
                  path));
}

}  // namespace trainyard::engine
