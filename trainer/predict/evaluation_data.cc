#include "trainer/predict/evaluation_data.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <vector>

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using Format = DataConfig::Format;

// All examples of the split's files.
DataSplit WholeOf(DataSplit split) {
  const DataSplit all;
  split.begin = all.begin;
  split.end = all.end;
  return split;
}

}  // namespace

bool IsSameFolder(const std::string& a, const std::string& b) {
  const auto whole = [](const std::string& path) {
    std::error_code error;
    fs::path absolute = fs::weakly_canonical(fs::absolute(path.empty() ? "." : path, error), error);
    return absolute.has_filename() ? absolute : absolute.parent_path();  // "DIR/"
  };
  return whole(a) == whole(b);
}

DataConfig EvaluatedWhole(DataConfig data) {
  if (!data.eval || data.format == Format::kText) return data;
  data.eval_fraction = 0;
  if (WholeOf(*data.eval) == WholeOf(data.train)) data.eval = WholeOf(*data.eval);
  return data;
}

absl::StatusOr<DataConfig> EvaluatedFile(DataConfig data, const std::string& name, bool keep_part) {
  DataSplit split = data.eval.value_or(data.train);
  switch (data.format) {
    case Format::kCsv:
    case Format::kParquet:
    case Format::kTfRecord:
    case Format::kCifar10:
      split.files = {name};
      break;
    case Format::kNumpy:
      if (split.archive.empty())
        return absl::InvalidArgumentError("found a file, expected the folder of the .npy files that the job names");
      split.archive = name;
      break;
    case Format::kText:
      return absl::InvalidArgumentError("found a file, expected the folder of the texts: the training's gives the vocabulary");
    case Format::kIdx:
    case Format::kStore:
    case Format::kImages:
    case Format::kSynthetic:
      return absl::InvalidArgumentError("found a file, expected the folder of the data: its format has several files");
  }
  if (!keep_part) {
    split = WholeOf(split);
    data.eval_fraction = 0;
  }
  data.eval = std::move(split);
  return data;
}

bool EvaluatesFile(const DataConfig& data, const std::string& name) {
  if (!data.eval) return false;
  return data.eval->archive == name || data.eval->files == std::vector{name};
}

}  // namespace trainyard::engine
