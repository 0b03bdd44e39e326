// What a job says of its data (`spec.training.data`), as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

// What is done to training images before the model sees them; see augment.h.
struct AugmentConfig {
  bool flip = false;
  int64_t shift = 0;  // pixels
  bool any() const { return flip || shift > 0; }
  friend bool operator==(const AugmentConfig&, const AugmentConfig&) = default;
};

// text: what a token is; see text_tokens.h.
enum class TokenKind : uint8_t { kWords, kCharacters };

// One split of a data set: which examples, and where they come from.
struct DataSplit {
  std::string images;              // idx: file below `dir`, .gz or not
  std::string labels;              // idx: file below `dir`, .gz or not
  std::vector<std::string> files;  // cifar10, text: files below `dir`, .gz or not; at least one
  AugmentConfig augment;           // training only
  int64_t begin = 0;               // range: [begin, end), the examples (text: tokens) of the files that belong to this split
  int64_t end = -1;                // -1: to the end of the files
  double fraction_begin = 0;       // text: fraction: [begin, end) in shares of all tokens of the files; range is then not used
  double fraction_end = 1;
  int64_t examples = 0;  // synthetic: how many are generated; >= 1
  friend bool operator==(const DataSplit&, const DataSplit&) = default;
};

struct DataConfig {
  enum class Format : uint8_t { kIdx, kCifar10, kText, kSynthetic };
  Format format = Format::kIdx;
  std::string dir;  // relative to the working directory
  DataSplit train;
  std::optional<DataSplit> eval;         // absent: nothing is evaluated
  bool shuffle = true;                   // of the training split; by (seed, epoch)
  bool cache = true;                     // keep decoded examples in memory; cifar10 always does
  int prefetch = 2;                      // batches prepared ahead; 0: none, in the caller's thread
  TokenKind tokens = TokenKind::kWords;  // text
  int64_t vocabulary = 0;                // text: the most different tokens; 0: as many as the model has classes
  double noise = 0.1;                    // synthetic: standard deviation of what is added to the examples or targets
  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

}  // namespace trainyard::engine
