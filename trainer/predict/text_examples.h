// Texts as the tokens that a model of text reads.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/text/vocabulary.h"
#include "trainer/predict/example_reader.h"
#include "trainer/predict/predictor.h"

namespace trainyard::engine {

inline constexpr int64_t kMostTextTokens = 65536;  // of a text to predict for

// The ids of a text's tokens; kUnknown's for a token that the vocabulary lacks, as in training and
// evaluation. InvalidArgument: it has no token or more than kMostTextTokens, is no UTF-8, or has a
// token without an id. `name` is what messages call the text.
absl::StatusOr<std::vector<int32_t>> TokensOfText(const Vocabulary& vocabulary, std::string_view text, const std::string& name);

// The texts of a file: with `json` a text in quotes on each line, or a list of token ids; else the
// lines themselves, without their ends. Empty lines do not count. An example's bytes are its tokens
// (kI32). `lines` and `vocabulary` must outlive the reader.
std::unique_ptr<ExampleReader> ReadTexts(std::istream& lines, const Vocabulary& vocabulary, bool json);
// The same of a file. NotFound, InvalidArgument: it cannot be read.
absl::StatusOr<std::unique_ptr<ExampleReader>> OpenTexts(const std::string& path, const Vocabulary& vocabulary);

// What follows each text, all of which begin: [texts][outputs()], as Predict says it after the last
// token. No text is empty, and there is one.
absl::StatusOr<std::vector<float>> PredictTexts(Predictor& predictor, const std::vector<std::vector<int32_t>>& texts);

}  // namespace trainyard::engine
