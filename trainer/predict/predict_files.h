// Predictions for the examples of many files, in the memory of one batch.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/predict/predictor.h"

namespace trainyard::engine {

struct Prediction {
  std::string file;
  int64_t index = -1;             // of the example in its file, from 0; -1: the file has one
  std::span<const float> values;  // Predictor::outputs() of them, until the call that got them returns
};

struct PredictFilesOptions {
  std::vector<std::string> files;  // "-": `lines`, an array of numbers on each, or rows of CSV for a model of those
  bool resize = false;             // pictures of another size are scaled
};

// Both are called in the order of the files and their examples.
struct PredictListener {
  std::function<void(const Prediction&)> predicted;
  // A wrong file or example gets no prediction. The message names the file.
  std::function<void(const std::string& file, const absl::Status& error)> failed;
};

// `lines` is read only for "-". An error that is returned is the model's, not a file's, and ends
// the predictions.
absl::Status PredictFiles(Predictor& predictor, const PredictFilesOptions& options, std::istream& lines, const PredictListener& listener);

}  // namespace trainyard::engine
