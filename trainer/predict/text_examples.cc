#include "trainer/predict/text_examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/byte_source.h"
#include "trainer/predict/line_reader.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMostLineBytes = size_t{1} << 20;

absl::Status TooLong(const std::string& name, size_t tokens) {
  return absl::InvalidArgumentError(fmt::format("{}: found {} tokens, expected 1 to {}", name, tokens, kMostTextTokens));
}

absl::StatusOr<std::vector<int32_t>> TokensOfJson(const Vocabulary& vocabulary, const std::string& line, const std::string& name) {
  const nlohmann::json value = ParseJson(line);
  if (value.is_string()) return TokensOfText(vocabulary, value.get_ref<const std::string&>(), name);
  if (!value.is_array()) return absl::InvalidArgumentError(fmt::format("{}: expected a text in quotes, or a list of token ids", name));
  if (value.empty() || value.size() > static_cast<size_t>(kMostTextTokens)) return TooLong(name, value.size());
  std::vector<int32_t> tokens;
  for (const nlohmann::json& id : value) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocabulary.size())) {
      return absl::InvalidArgumentError(
          fmt::format("{}: found a token id that is no whole number from 0 to {}", name, vocabulary.size() - 1));
    }
    tokens.push_back(id.get<int32_t>());
  }
  return tokens;
}

class TextReader final : public ExampleReader {
 public:
  TextReader(std::istream& lines, const Vocabulary& vocabulary, bool json)
      : lines_(lines, kMostLineBytes), vocabulary_(vocabulary), json_(json) {}

  absl::StatusOr<bool> Next(Example& example) override {
    const LineReader::Found found = lines_.Next();
    if (found == LineReader::Found::kEnd) return false;
    const std::string name = fmt::format("line {}", lines_.number());
    if (found == LineReader::Found::kTooLong) {
      return absl::InvalidArgumentError(fmt::format("{}: found more than {} bytes", name, kMostLineBytes));
    }
    std::string& line = lines_.line();
    if (!json_ && line.ends_with('\r')) line.pop_back();
    TY_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                        json_ ? TokensOfJson(vocabulary_, line, name) : TokensOfText(vocabulary_, line, name));
    example.dtype = DType::kI32;
    example.index = lines_.number() - 1;
    const std::span<const std::byte> bytes = std::as_bytes(std::span(tokens));
    example.bytes.assign(bytes.begin(), bytes.end());
    return true;
  }

 private:
  LineReader lines_;
  const Vocabulary& vocabulary_;
  const bool json_;
};

// Owns the file that it reads.
class TextFileReader final : public ExampleReader {
 public:
  TextFileReader(std::unique_ptr<std::ifstream> file, const Vocabulary& vocabulary, bool json)
      : file_(std::move(file)), texts_(ReadTexts(*file_, vocabulary, json)) {}
  absl::StatusOr<bool> Next(Example& example) override { return texts_->Next(example); }

 private:
  const std::unique_ptr<std::ifstream> file_;
  const std::unique_ptr<ExampleReader> texts_;
};

}  // namespace

absl::StatusOr<std::vector<int32_t>> TokensOfText(const Vocabulary& vocabulary, std::string_view text, const std::string& name) {
  if (text.empty()) return TooLong(name, 0);
  TokenStream stream(vocabulary.kind());
  if (const absl::Status cut = stream.Append(text, name); !cut.ok()) return absl::InvalidArgumentError(cut.message());
  const std::vector<int32_t>& numbers = stream.numbers();
  if (numbers.empty() || numbers.size() > static_cast<size_t>(kMostTextTokens)) return TooLong(name, numbers.size());
  std::vector<int32_t> tokens;
  for (const int32_t number : numbers) {
    const std::string& token = stream.tokens()[static_cast<size_t>(number)];
    const std::optional<int32_t> id = vocabulary.IdOf(token);
    if (!id) {
      return absl::InvalidArgumentError(
          fmt::format("{}: found {}, which is not among the {} tokens that the model knows", name, Quoted(token), vocabulary.size()));
    }
    tokens.push_back(*id);
  }
  return tokens;
}

std::unique_ptr<ExampleReader> ReadTexts(std::istream& lines, const Vocabulary& vocabulary, bool json) {
  return std::make_unique<TextReader>(lines, vocabulary, json);
}

absl::StatusOr<std::unique_ptr<ExampleReader>> OpenTexts(const std::string& path, const Vocabulary& vocabulary) {
  TY_RETURN_IF_ERROR(OpenFileSource(path).status());  // refuses a file that is absent, and a folder
  const bool json = path.ends_with(".jsonl") || path.ends_with(".json");
  return std::make_unique<TextFileReader>(std::make_unique<std::ifstream>(path, std::ios::binary), vocabulary, json);
}

absl::StatusOr<std::vector<float>> PredictTexts(Predictor& predictor, const std::vector<std::vector<int32_t>>& texts) {
  std::vector<RowState> states(texts.size());
  std::vector<size_t> read(texts.size());  // tokens of each
  // All texts read the longest pieces first, so that many rows share each run.
  for (const int64_t length : kReadLengths) {
    while (true) {
      std::vector<int32_t> tokens;
      std::vector<RowState*> rows;
      for (size_t i = 0; i < texts.size(); ++i) {
        if (texts[i].size() <= read[i] + static_cast<size_t>(length)) continue;  // the last token is left
        const auto from = texts[i].begin() + static_cast<ptrdiff_t>(read[i]);
        tokens.insert(tokens.end(), from, from + length);
        rows.push_back(&states[i]);
        read[i] += static_cast<size_t>(length);
      }
      if (rows.empty()) break;
      TY_RETURN_IF_ERROR(predictor.Read(tokens, length, rows));
    }
  }
  std::vector<int32_t> last;
  std::vector<RowState*> rows;
  for (size_t i = 0; i < texts.size(); ++i) {
    last.push_back(texts[i].back());
    rows.push_back(&states[i]);
  }
  TY_ASSIGN_OR_RETURN(const std::span<const float> said,
                      predictor.Predict(DType::kI32, std::as_bytes(std::span(last)), static_cast<int64_t>(texts.size()), rows));
  return std::vector<float>(said.begin(), said.end());
}

}  // namespace trainyard::engine
