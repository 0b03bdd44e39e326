// Text as the data set of a language model: x are tokens, y the tokens that follow them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/data_config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/text/vocabulary.h"

namespace trainyard::engine {

// One split: tokens [begin, end) of all files together, one file following the other.
struct TextFiles {
  std::vector<std::string> paths;  // .gz or not; UTF-8
  int64_t begin = 0;
  int64_t end = -1;           // -1: to the last one
  double fraction_begin = 0;  // the split's share of those tokens: from floor(fraction_begin * tokens) to floor(fraction_end * tokens),
  double fraction_end = 1;    // so that two splits that meet in a fraction share no token and miss none
};

struct TextOptions {
  TokenKind tokens = TokenKind::kWords;
  int64_t vocabulary = 0;  // the most different tokens; 0: as many as the model has classes
  ExpectedData expected;   // input [steps] tokens, labels [steps]
};

// A file of text, packed by gzip or not. InvalidArgument: it has more than `max_bytes`.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes = size_t{4} << 30);

// All in memory, 4 bytes a token. Checked before anything is trained: the model takes tokens and a
// label for each. Files are there, not empty and UTF-8. The model has a class for every token of
// the vocabulary. An evaluation text has no token that the vocabulary lacks, unless the vocabulary
// holds kUnknown, which then stands for it. There are more tokens than one example has.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTrainingText(const TextFiles& files, const TextOptions& options);
absl::StatusOr<std::unique_ptr<Dataset>> OpenEvaluationText(const TextFiles& files, const std::shared_ptr<const Vocabulary>& vocabulary,
                                                            const ExpectedData& expected);
// The vocabulary that OpenTrainingText of the same files and options has.
absl::StatusOr<std::shared_ptr<const Vocabulary>> VocabularyOf(const TextFiles& files, const TextOptions& options);

}  // namespace trainyard::engine
