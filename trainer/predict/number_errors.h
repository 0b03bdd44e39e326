// How far a model's numbers are from the labels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "trainer/data/csv_config.h"
#include "trainer/data/dataset.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {

// In the labels' unit, over all elements of all examples.
struct NumberScore {
  double mean_absolute = 0;
  double root_mean_square = 0;
  // 1 - sum of errors² / sum of (label - mean of the labels)²; absent where all labels are equal.
  std::optional<double> r2;
};

// Not thread-safe.
class NumberErrors {
 public:
  // For models that give numbers; else nothing. `scale`: of labels that are standardised.
  static std::optional<NumberErrors> For(const ExpectedData& expected, const std::optional<LabelScale>& scale);

  // For ModelRunner::Evaluate; this object must outlive it.
  ModelRunner::BatchSeen Seen();
  // Absent before the first example.
  std::optional<NumberScore> Score() const;

  // `predictions` are as many as `labels`.
  void Add(std::span<const float> predictions, std::span<const float> labels);

 private:
  explicit NumberErrors(LabelScale scale) : scale_(scale) {}
  absl::Status Take(const Batch& batch, const Executor& executor);

  LabelScale scale_;
  int64_t count_ = 0;
  double absolute_ = 0;  // sums
  double squares_ = 0;
  double mean_ = 0;      // of the labels so far
  double distance_ = 0;  // sum of their squared distances from it
  std::vector<float> predictions_;
};

}  // namespace trainyard::engine
