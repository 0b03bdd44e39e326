#include "trainer/data/text/text_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/counted.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/told_source.h"

namespace trainyard::engine {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

std::string NameOf(const TextFiles& files) {
  return files.paths.size() == 1 ? files.paths[0] : fmt::format("{} and {} more", files.paths[0], files.paths.size() - 1);
}

// The tokens of a split.
struct SplitTokens {
  TokenStream stream;
  size_t begin = 0;
  size_t end = 0;
};

// "range [5, 9) of a.txt", or the name alone where all tokens are the split's.
std::string PartOf(const TextFiles& files, const SplitTokens& split) {
  const bool all = split.begin == 0 && split.end == split.stream.numbers().size();
  return all ? NameOf(files) : fmt::format("range [{}, {}) of {}", split.begin, split.end, NameOf(files));
}

absl::StatusOr<SplitTokens> ReadSplit(const TextFiles& files, TokenKind kind) {
  SplitTokens split{.stream = TokenStream(kind)};
  for (const std::string& path : files.paths) {
    TY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
    TY_RETURN_IF_ERROR(split.stream.Append(text, path));
  }
  const auto count = static_cast<int64_t>(split.stream.numbers().size());
  int64_t begin = files.begin;
  int64_t end = files.end < 0 ? count : files.end;
  if (begin < 0 || begin > end || end > count) {
    return absl::OutOfRangeError(fmt::format("range [{}, {}) does not fit into the {} tokens of {}", begin, end, count, NameOf(files)));
  }
  const auto place = [begin, tokens = static_cast<double>(end - begin)](double fraction) {
    return begin + static_cast<int64_t>(std::floor(fraction * tokens));
  };
  end = place(files.fraction_end);
  begin = place(files.fraction_begin);
  TY_CHECK(begin <= end && end <= count);
  split.begin = static_cast<size_t>(begin);
  split.end = static_cast<size_t>(end);
  return split;
}

absl::StatusOr<std::shared_ptr<const Vocabulary>> VocabularyOf(const SplitTokens& split, const TextOptions& options) {
  const int64_t limit = options.vocabulary > 0 ? options.vocabulary : options.expected.classes;
  return std::make_shared<const Vocabulary>(split.stream, split.begin, split.end, limit);
}

absl::Status CheckModel(const ExpectedData& expected) {
  const Shape& input = expected.example_shape;
  if (expected.vocabulary > 0 && expected.classes > 0 && input.rank() == 1 && expected.label_shape == input) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "text takes a model of [steps] tokens with softmaxCrossEntropy over [steps, classes]; this one's input is {} {}, its "
      "labels are {}",
      expected.vocabulary > 0 ? "tokens of" : "numbers of", input.ToString(),
      expected.classes > 0 ? "class numbers of " + expected.label_shape.ToString() : "numbers of " + expected.target_shape.ToString()));
}

absl::Status CheckVocabulary(const Vocabulary& vocabulary, const ExpectedData& expected) {
  const int64_t most = std::min<int64_t>(expected.vocabulary, expected.classes);
  if (vocabulary.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the vocabulary has {} tokens, the model takes {} and has {} classes; set data.vocabulary to {} or make the model larger",
                  vocabulary.size(), expected.vocabulary, expected.classes, most));
}

// The vocabulary's id of each different token of the split.
std::vector<int32_t> IdsOf(const SplitTokens& split, const Vocabulary& vocabulary) {
  TY_CHECK(vocabulary.unknown().has_value());  // every vocabulary that was made of a text has it
  std::vector<int32_t> ids;
  for (const std::string& token : split.stream.tokens()) ids.push_back(*vocabulary.IdOf(token));
  return ids;
}

class TextDataset final : public Dataset {
 public:
  TextDataset(DatasetInfo info, std::vector<int32_t> tokens) : info_(std::move(info)), tokens_(std::move(tokens)) {
    TY_CHECK(static_cast<int64_t>(tokens_.size()) == info_.examples + info_.stream_steps);
  }

  const DatasetInfo& info() const override { return info_; }

  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    batch.Resize(static_cast<int64_t>(indices.size()), info_.x_dtype, info_.example_shape, info_.y_dtype, info_.label_shape);
    batch.x_scale = info_.x_scale;
    auto* x = static_cast<int32_t*>(batch.x.data);
    auto* y = static_cast<int32_t*>(batch.y.data);
    const int64_t steps = info_.stream_steps;
    for (const int64_t index : indices) {
      TY_CHECK(index >= 0 && index < info_.examples);
      x = std::copy_n(tokens_.data() + index, steps, x);
      y = std::copy_n(tokens_.data() + index + 1, steps, y);
    }
    return absl::OkStatus();
  }

 private:
  const DatasetInfo info_;
  const std::vector<int32_t> tokens_;
};

absl::StatusOr<std::unique_ptr<Dataset>> DatasetOf(const TextFiles& files, const SplitTokens& split,
                                                   const std::shared_ptr<const Vocabulary>& vocabulary, const ExpectedData& expected) {
  TY_RETURN_IF_ERROR(CheckVocabulary(*vocabulary, expected));
  const int64_t steps = expected.example_shape[0];
  DatasetInfo info;
  info.name = NameOf(files);
  info.examples = static_cast<int64_t>(split.end - split.begin) - steps;
  if (info.examples < 1) {
    return absl::InvalidArgumentError(fmt::format("{}: found {}, expected {} or more for the model's {} steps", PartOf(files, split),
                                                  Counted(static_cast<int64_t>(split.end - split.begin), "token"), steps + 1, steps));
  }
  info.example_shape = info.label_shape = expected.example_shape;
  info.x_dtype = info.y_dtype = DType::kI32;
  info.stream_steps = steps;
  info.vocabulary = vocabulary;
  const std::vector<int32_t> ids = IdsOf(split, *vocabulary);
  std::vector<int32_t> tokens(split.stream.numbers().begin() + static_cast<std::ptrdiff_t>(split.begin),
                              split.stream.numbers().begin() + static_cast<std::ptrdiff_t>(split.end));
  for (int32_t& token : tokens) token = ids[token];
  return std::make_unique<TextDataset>(std::move(info), std::move(tokens));
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, Unpacked(Told(std::move(file), path), path));
  std::string text;
  for (size_t size = 0;; size = text.size()) {
    text.resize(size + kChunk);
    TY_ASSIGN_OR_RETURN(const size_t got, source->Read(std::as_writable_bytes(std::span(text).subspan(size))));
    text.resize(size + got);
    if (got < kChunk) return text;
    if (text.size() > max_bytes) return absl::InvalidArgumentError(fmt::format("{}: more than {} bytes of text", path, max_bytes));
  }
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenTrainingText(const TextFiles& files, const TextOptions& options) {
  TY_RETURN_IF_ERROR(CheckModel(options.expected));
  TY_ASSIGN_OR_RETURN(const SplitTokens split, ReadSplit(files, options.tokens));
  TY_ASSIGN_OR_RETURN(const std::shared_ptr<const Vocabulary> vocabulary, VocabularyOf(split, options));
  return DatasetOf(files, split, vocabulary, options.expected);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenEvaluationText(const TextFiles& files, const std::shared_ptr<const Vocabulary>& vocabulary,
                                                            const ExpectedData& expected) {
  TY_RETURN_IF_ERROR(CheckModel(expected));
  TY_ASSIGN_OR_RETURN(const SplitTokens split, ReadSplit(files, vocabulary->kind()));
  return DatasetOf(files, split, vocabulary, expected);
}

absl::StatusOr<std::shared_ptr<const Vocabulary>> VocabularyOf(const TextFiles& files, const TextOptions& options) {
  TY_RETURN_IF_ERROR(CheckModel(options.expected));
  TY_ASSIGN_OR_RETURN(const SplitTokens split, ReadSplit(files, options.tokens));
  return VocabularyOf(split, options);
}

}  // namespace trainyard::engine
