#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>

#include "absl/strings/ascii.h"
#include "trainer/base/status_macros.h"
#include "trainer/commands/find_formats.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/formats/parquet_dataset.h"
#include "trainer/data/formats/tf_example.h"
#include "trainer/data/formats/tfrecord_reader.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostRecordClasses = 10'000;
constexpr int64_t kSmallestRecordSide = 8;

using RowSeen = std::function<absl::Status(const Elements& image, const Elements& label)>;
using ReadRows = std::function<absl::Status(const std::string& path, const FeatureNames& names, const RowSeen& seen)>;

// What is known of the rows so far.
struct Rows {
  int64_t count = 0;
  int64_t elements = 0;  // of an example
  bool bytes = false;
  bool classes = true;
  std::vector<int64_t> labels;  // class numbers, where `classes`
};

absl::Status Take(const Elements& image, const Elements& label, Rows& rows) {
  if (label.count != 1) {
    return absl::InvalidArgumentError(
        fmt::format("has {} numbers in a label, expected one; write the job by hand: docs/data.md has its fields", label.count));
  }
  if (rows.count++ == 0) {
    rows.elements = image.count;
    rows.bytes = image.type == ElementType::kU8;
    rows.classes = label.whole_numbers();
  }
  if (rows.classes && label.whole_numbers()) rows.labels.push_back(WholeNumber(label));
  return absl::OkStatus();
}

absl::Status ReadTfRecords(const std::string& path, const FeatureNames& names, const RowSeen& seen) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, Unpacked(std::move(file), path));
  TfRecordReader reader(std::move(source), path);
  TfExampleParser parser(names);
  while (true) {
    TY_ASSIGN_OR_RETURN(const std::optional<std::string_view> record, reader.Next());
    if (!record) return absl::OkStatus();
    const absl::StatusOr<TfExampleParser::Parsed> parsed = parser.Parse(*record);
    if (!parsed.ok()) return WithContext(parsed.status(), fmt::format("{}: record {}", path, reader.record()));
    TY_RETURN_IF_ERROR(seen(parsed->image, parsed->label));
  }
}

// The first of the usual pairs of names that the file has.
absl::StatusOr<FeatureNames> NamesIn(const std::string& path, const ReadRows& read) {
  absl::Status last;
  for (const char* label : {"label", "y", "class", "target"}) {
    for (const char* image : {"image_raw", "image", "x", "pixels", "features"}) {
      const FeatureNames names{.image = image, .label = label};
      const absl::Status enough = absl::CancelledError();
      last = read(path, names, [&](const Elements&, const Elements&) { return enough; });
      if (last == enough) return names;
      if (last.ok()) return absl::InvalidArgumentError(path + " holds no records");
      const std::string_view says(last.message().data(), last.message().size());
      const bool absent = says.find("has no feature \"") != says.npos || says.find("has no column \"") != says.npos;
      if (!absent) return last;
    }
  }
  return WithContext(last,
                     fmt::format("{} has none of the names that are tried: image_raw, image, x, pixels or features, and label, y, class "
                                 "or target; write the job by hand. The last attempt says",
                                 path));
}

// Bytes as many as those of a square picture are taken for one.
Shape ShapeOf(const Rows& rows) {
  for (const int64_t channels : {int64_t{1}, int64_t{3}}) {
    const int64_t side = std::llround(std::sqrt(static_cast<double>(rows.elements) / static_cast<double>(channels)));
    if (rows.bytes && side >= kSmallestRecordSide && side * side * channels == rows.elements) return Shape{side, side, channels};
  }
  return Shape{rows.elements};
}

std::string FilesText(const std::vector<std::string>& files, const std::string& range) {
  std::vector<std::string> quoted;
  for (const std::string& file : files) quoted.push_back(YamlText(file));
  return fmt::format("{{files: [{}]{}}}", fmt::join(quoted, ", "), range.empty() ? "" : ", range: " + range);
}

absl::StatusOr<std::optional<FoundData>> FindRecords(const FolderContent& content, const std::string& format,
                                                     std::span<const char* const> endings, const ReadRows& read) {
  std::vector<std::string> train;
  std::vector<std::string> eval;
  for (const std::string& file : content.files) {
    const std::string name = absl::AsciiStrToLower(file);
    if (std::ranges::any_of(endings, [&](const char* ending) { return name.ends_with(ending); }))
      (IsEvaluation(file) ? eval : train).push_back(file);
  }
  if (train.empty()) train.swap(eval);
  if (train.empty()) return std::nullopt;
  const auto path_of = [&](const std::string& file) { return (std::filesystem::path(content.dir) / file).string(); };
  TY_ASSIGN_OR_RETURN(const FeatureNames names, NamesIn(path_of(train[0]), read));
  Rows rows;
  for (const std::string& file : train) {
    const absl::Status seen =
        read(path_of(file), names, [&](const Elements& image, const Elements& label) { return Take(image, label, rows); });
    if (!seen.ok()) return seen;
  }
  const int64_t largest = rows.labels.empty() ? 0 : *std::ranges::max_element(rows.labels);
  if (rows.classes && (largest < 1 || largest >= kMostRecordClasses)) {
    return absl::InvalidArgumentError(fmt::format("{}: the largest label is {}, expected one from 1 to {}: classes are numbered from 0",
                                                  path_of(train[0]), largest, kMostRecordClasses - 1));
  }
  FoundData found{.examples = rows.count, .input = ShapeOf(rows), .classes = rows.classes ? largest + 1 : 0};
  found.summary = fmt::format("{} records of {} in {} {}{}", rows.count, found.input.ToString(), train.size(),
                              train.size() == 1 ? "file" : "files", rows.classes ? fmt::format(", of {} classes", found.classes) : "");
  const int64_t cut = EvaluationCut(rows.count);
  const bool split = eval.empty() && rows.count > 1;
  found.data = {"format: " + format, "train: " + FilesText(train, split ? fmt::format("[0, {}]", cut) : "")};
  if (split) found.data.push_back("eval: " + FilesText(train, fmt::format("[{}, {}]", cut, rows.count)));
  const bool labelled = rows.classes && static_cast<int64_t>(rows.labels.size()) == rows.count;
  if (split && labelled) NoteMissingClasses(rows.labels, cut, found);
  if (!eval.empty()) found.data.push_back("eval: " + FilesText(eval, ""));
  found.data.push_back(fmt::format("features: {{image: {}, label: {}}}", names.image, names.label));
  return found;
}

}  // namespace

absl::StatusOr<std::optional<FoundData>> FindTfRecords(const FolderContent& content) {
  constexpr std::array kEndings = {".tfrecord", ".tfrecords", ".tfrec", ".tfrecord.gz", ".tfrecords.gz"};
  return FindRecords(content, "tfrecord", kEndings, ReadTfRecords);
}

absl::StatusOr<std::optional<FoundData>> FindParquet(const FolderContent& content) {
  constexpr std::array kEndings = {".parquet"};
  return FindRecords(content, "parquet", kEndings, [](const std::string& path, const FeatureNames& names, const RowSeen& seen) {
    return ReadParquetRows(path, names, seen);
  });
}

}  // namespace trainyard::engine
