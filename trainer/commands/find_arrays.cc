#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "trainer/base/counted.h"
#include "trainer/base/status_macros.h"
#include "trainer/commands/find_formats.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/formats/idx.h"
#include "trainer/data/formats/npy.h"
#include "trainer/data/formats/npz.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostClasses = 10'000;

std::string PathIn(const FolderContent& content, const std::string& file) { return (std::filesystem::path(content.dir) / file).string(); }

bool Has(const FolderContent& content, const std::string& file) { return std::ranges::binary_search(content.files, file); }

constexpr int kMostInputAxes = 4;  // of a model

// Grey images get the channel that a model wants. Records of an unusual shape become a list.
Shape InputOf(const Shape& record) {
  if (record.rank() == 2) return Shape{record[0], record[1], 1};
  return record.rank() == 0 || record.rank() > kMostInputAxes ? Shape{record.elements()} : record;
}

// The first nine tenths of `n`, and the rest.
std::pair<std::string, std::string> Ranges(int64_t n) {
  const int64_t cut = EvaluationCut(n);
  return {fmt::format("[0, {}]", cut), fmt::format("[{}, {}]", cut, n)};
}

absl::StatusOr<int64_t> ClassesOf(int64_t largest, const std::string& name) {
  if (largest >= 1 && largest < kMostClasses) return largest + 1;
  return absl::InvalidArgumentError(
      fmt::format("{}: its largest label is {}, expected one from 1 to {}: classes are numbered from 0", name, largest, kMostClasses - 1));
}

struct IdxPair {
  std::string images;
  std::string labels;
};

// "train-images-idx3-ubyte.gz" → "train-labels-idx1-ubyte.gz"
std::string LabelsOf(std::string name) {
  const auto change = [&name](std::string_view from, std::string_view to) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  };
  change("images", "labels");
  change("idx3", "idx1");
  return name;
}

std::string FlowOf(const IdxPair& pair, const std::string& range) {
  return fmt::format("{{images: {}, labels: {}{}}}", YamlText(pair.images), YamlText(pair.labels),
                     range.empty() ? "" : ", range: " + range);
}

}  // namespace

absl::StatusOr<std::optional<FoundData>> FindCifar10(const FolderContent& content) {
  std::vector<std::string> train;
  for (const std::string& file : content.files) {
    if (file.starts_with("data_batch_") && file.find(".bin") != std::string::npos) train.push_back(YamlText(file));
  }
  if (train.empty()) return std::nullopt;
  FoundData found{.examples = static_cast<int64_t>(train.size()) * 10'000, .input = {32, 32, 3}, .classes = 10};
  found.summary = fmt::format("{} files of CIFAR-10", train.size());
  std::string list;
  for (const std::string& file : train) list += (list.empty() ? "" : ", ") + file;
  found.data = {"format: cifar10", fmt::format("train: {{files: [{}], augment: {{flip: true, shift: 4}}}}", list)};
  for (const char* test : {"test_batch.bin", "test_batch.bin.gz"}) {
    if (Has(content, test)) found.data.push_back(fmt::format("eval: {{files: [{}]}}", test));
  }
  return found;
}

absl::StatusOr<std::optional<FoundData>> FindIdx(const FolderContent& content) {
  std::vector<IdxPair> pairs;
  for (const std::string& file : content.files) {
    if (file.find("images") == std::string::npos) continue;
    const IdxPair pair{.images = file, .labels = LabelsOf(file)};
    if (pair.labels != pair.images && Has(content, pair.labels)) pairs.push_back(pair);
  }
  if (pairs.empty()) return std::nullopt;
  std::ranges::sort(pairs, {}, [](const IdxPair& pair) { return std::pair(!pair.images.starts_with("train"), pair.images); });
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> images_file, OpenFileSource(PathIn(content, pairs[0].images)));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> images, Unpacked(std::move(images_file), pairs[0].images));
  TY_ASSIGN_OR_RETURN(const IdxHeader header, ReadIdxHeader(*images, PathIn(content, pairs[0].images)));
  if (header.records() == 0) return absl::InvalidArgumentError(PathIn(content, pairs[0].images) + " has no examples");
  const std::string labels_name = PathIn(content, pairs[0].labels);
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> labels_file, OpenFileSource(labels_name));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> labels_source, Unpacked(std::move(labels_file), labels_name));
  TY_ASSIGN_OR_RETURN(const IdxRecords labels, ReadIdx(*labels_source, labels_name));
  if (labels.header.shape.rank() != 1 || labels.header.records() != header.records() || labels.header.type == IdxType::kF32 ||
      labels.header.type == IdxType::kF64) {
    return absl::InvalidArgumentError(fmt::format("{} has {}, expected a whole number for each of the {} images", labels_name,
                                                  labels.header.shape.ToString(), header.records()));
  }
  std::vector<int32_t> numbers(static_cast<size_t>(labels.header.records()));
  DecodeIdxAsI32(labels.header.type, labels.bytes.data(), numbers);
  FoundData found{.examples = header.records(), .input = InputOf(header.record_shape())};
  TY_ASSIGN_OR_RETURN(found.classes, ClassesOf(*std::ranges::max_element(numbers), labels_name));
  found.summary = fmt::format("{} of {} in IDX files, of {}", Counted(found.examples, "example"), header.record_shape().ToString(),
                              Counted(found.classes, "class", "classes"));
  const auto [first, rest] = Ranges(found.examples);
  const bool one = pairs.size() == 1;
  found.data = {"format: idx", "train: " + FlowOf(pairs[0], one ? first : ""), "eval: " + FlowOf(pairs[one ? 0 : 1], one ? rest : "")};
  if (one) NoteMissingClasses(std::vector<int64_t>(numbers.begin(), numbers.end()), EvaluationCut(found.examples), found);
  return found;
}

absl::StatusOr<std::optional<FoundData>> FindNpz(const FolderContent& content) {
  std::vector<std::string> files = content.files;
  std::erase_if(files, [](const std::string& name) { return !name.ends_with(".npz"); });
  if (files.empty()) return std::nullopt;
  SortTrainFirst(files);
  const std::string path = PathIn(content, files[0]);
  using Names = std::array<const char*, 4>;
  for (const Names& names : {Names{"x_train", "y_train", "x_test", "y_test"}, Names{"x_train", "y_train", "x_val", "y_val"},
                             Names{"images", "labels", "", ""}, Names{"x", "y", "", ""}, Names{"X", "y", "", ""}}) {
    absl::StatusOr<std::unique_ptr<ByteSource>> x = OpenNpzArray(path, names[0]);
    absl::StatusOr<std::unique_ptr<ByteSource>> y = OpenNpzArray(path, names[1]);
    if (absl::IsNotFound(x.status()) || absl::IsNotFound(y.status())) continue;
    TY_RETURN_IF_ERROR(x.status());
    TY_RETURN_IF_ERROR(y.status());
    TY_ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(**x, NpzArrayName(path, names[0])));
    TY_ASSIGN_OR_RETURN(const NpyArray labels, ReadNpy(**y, NpzArrayName(path, names[1])));
    if (header.shape.elements() == 0) {
      return absl::InvalidArgumentError(
          fmt::format("{} has the shape {}, expected numbers in it", NpzArrayName(path, names[0]), header.shape.ToString()));
    }
    FoundData found{.examples = header.records(), .input = InputOf(header.record_shape())};
    const Elements all{.type = labels.header.type, .data = labels.bytes.data(), .count = labels.header.shape.elements()};
    std::vector<int64_t> classes;  // of the examples
    if (all.whole_numbers()) {
      const size_t each = ElementBytes(all.type);
      for (int64_t i = 0; i < all.count; ++i) {
        classes.push_back(WholeNumber({.type = all.type, .data = all.data + i * each, .count = 1}));
      }
      const int64_t largest = classes.empty() ? 0 : *std::ranges::max_element(classes);
      TY_ASSIGN_OR_RETURN(found.classes, ClassesOf(largest, NpzArrayName(path, names[1])));
    }
    found.summary = fmt::format("{} of {} in {}", Counted(found.examples, "example"), header.record_shape().ToString(), files[0]);
    const auto split = [&](const std::string& file, const char* images, const char* numbers, const std::string& range) {
      return fmt::format("{{file: {}, images: {}, labels: {}{}}}", YamlText(file), images, numbers,
                         range.empty() ? "" : ", range: " + range);
    };
    const bool two = names[2][0] != '\0' && OpenNpzArray(path, names[2]).ok() && OpenNpzArray(path, names[3]).ok();
    std::string eval_file = two ? "" : EvaluationAmong(files);
    if (!OpenNpzArray(PathIn(content, eval_file), names[0]).ok() || !OpenNpzArray(PathIn(content, eval_file), names[1]).ok())
      eval_file = "";
    const bool one = !two && eval_file.empty();  // array for both
    const auto [first, rest] = Ranges(found.examples);
    found.data = {"format: numpy", "train: " + split(files[0], names[0], names[1], one ? first : "")};
    found.data.push_back("eval: " + (two   ? split(files[0], names[2], names[3], "")
                                     : one ? split(files[0], names[0], names[1], rest)
                                           : split(eval_file, names[0], names[1], "")));
    NoteLeftOut(files, eval_file, "", found);
    const bool labelled = static_cast<int64_t>(classes.size()) == found.examples;
    if (one && labelled) NoteMissingClasses(classes, EvaluationCut(found.examples), found);
    return found;
  }
  return absl::NotFoundError(fmt::format("{} has none of these pairs of arrays: x_train and y_train, images and labels, x and y", path));
}

}  // namespace trainyard::engine
