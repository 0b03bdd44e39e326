// Predictions as lines: a table for people, JSON for programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/predict/predict_files.h"

namespace trainyard::engine {

// A class number and its probability.
struct RankedClass {
  int number = 0;
  float probability = 0;
};

// The `most` likeliest classes, the likeliest first; of equally likely ones the lower number.
std::vector<RankedClass> LikeliestOf(std::span<const float> probabilities, int most);

// One line each, without its end. `classes` empty: the model gives numbers. `top` >= 1: how many
// classes a line has.
class PredictionTable {
 public:
  PredictionTable(std::span<const std::string> files, std::vector<std::string> classes, int top);
  std::string Header() const;
  std::string Row(const Prediction& prediction) const;

 private:
  std::string Cells(std::string_view name, std::string_view probability) const;

  const std::vector<std::string> classes_;
  const int top_;
  size_t file_width_ = 4;
  size_t class_width_ = 5;
};

// {"file", "index", "class", "classNumber", "probability", "top": [{"class", "classNumber",
// "probability"}]}; "index" of a file with several examples, "top" where `top` is above 1. A model
// that gives numbers has {"file", "index", "values"}.
std::string PredictionJson(const Prediction& prediction, std::span<const std::string> classes, int top);
// {"file", "error"}
std::string FailureJson(const std::string& file, const absl::Status& error);

}  // namespace trainyard::engine
