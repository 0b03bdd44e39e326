// A job's data sets (`spec.training.data`), as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/csv_config.h"
#include "trainer/data/pipeline_config.h"
#include "trainer/picture/fit_image.h"

namespace trainyard::engine {

// text: the unit that is one token; see text_tokens.h.
enum class TokenKind : uint8_t { kWords, kCharacters };

// One split of a data set: which examples, and where they come from.
struct DataSplit {
  std::string images;              // idx, numpy: file below `dir`, .gz or not; array of `archive`
  std::string labels;              // the same
  std::string archive;             // numpy: .npz file below `dir` that has both arrays; "": none
  std::vector<std::string> files;  // cifar10, tfrecord, parquet, text, csv: files below `dir`, .gz or not; at least one
  std::string folder;              // store: its name below `dir`; images: that of the class folders, "": `dir` itself
  int64_t begin = 0;               // range: [begin, end), the examples (text: tokens) of the files that belong to this split
  int64_t end = -1;                // -1: to the end of the files
  double fraction_begin = 0;       // text: fraction: [begin, end) in shares of all tokens of the files; range is then not used
  double fraction_end = 1;
  int64_t examples = 0;  // synthetic: how many are generated; >= 1
  friend bool operator==(const DataSplit&, const DataSplit&) = default;
};

// The names of examples and labels in files whose records have names.
struct FeatureNames {
  std::string image = "image_raw";
  std::string label = "label";
  friend bool operator==(const FeatureNames&, const FeatureNames&) = default;
};

// images: the way of a picture to the model's input.
struct ImageOptions {
  ImageFit fit = ImageFit::kCrop;
  int64_t height = 0;  // `size` and `channels` of the job, which are those of the model's input; 0: the job does not say
  int64_t width = 0;
  int64_t channels = 0;
  friend bool operator==(const ImageOptions&, const ImageOptions&) = default;
};

struct DataConfig {
  enum class Format : uint8_t { kIdx, kCifar10, kSynthetic, kTfRecord, kNumpy, kParquet, kStore, kText, kImages, kCsv };
  Format format = Format::kIdx;
  std::string dir;  // relative to the working directory
  DataSplit train;
  std::optional<DataSplit> eval;     // absent: nothing is evaluated
  FeatureNames features;             // tfrecord, parquet
  std::vector<std::string> classes;  // their names by number, not of text; empty: the job does not say
  ImageOptions images;
  CsvOptions csv;
  std::optional<std::vector<FittedColumn>> fitted;  // csv: what is known of the training's rows, by a checkpoint or since they were read
  std::optional<LabelScale> label_scale;            // csv with standardize_label: what is known, as of `fitted`
  double eval_fraction = 0;  // images, csv: > 0: `train` and `eval` are one set, of which the evaluation has this share
  uint64_t split_seed = 1;   // images, csv: of that cut; images: of the order
  PipelineConfig pipeline;
  TokenKind tokens = TokenKind::kWords;  // text
  int64_t vocabulary = 0;                // text: the most different tokens; 0: as many as the model has classes
  double noise = 0.1;                    // synthetic: standard deviation of what is added to the examples or targets
  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

}  // namespace trainyard::engine
