// Predictions of an evaluation: how many examples of each class were predicted as which, and the
// surest mistakes.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "trainer/data/dataset.h"
#include "trainer/model/confusion_matrix.h"
#include "trainer/report/evaluation_record.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {

// Not thread-safe. Copies are independent.
class PredictionWatch {
 public:
  static constexpr size_t kMostMistakes = 12;
  static constexpr int64_t kMostSide = 64;  // larger pictures are scaled down

  // For examples with one class each; else nothing.
  static std::optional<PredictionWatch> For(const ExpectedData& expected);

  // For ModelRunner::Evaluate; this object must outlive it.
  ModelRunner::BatchSeen Seen();

  const ConfusionMatrix& matrix() const { return matrix_; }
  // The most probable ones first, where examples are pictures in bytes; else none.
  const std::vector<Mistake>& mistakes() const { return mistakes_; }

 private:
  explicit PredictionWatch(int classes) : matrix_(classes) {}
  absl::Status Take(const Batch& batch, const Executor& executor);
  void TakeMistake(const Batch& batch, int64_t place, Mistake mistake);

  ConfusionMatrix matrix_;
  std::vector<Mistake> mistakes_;
  std::vector<float> scores_;
};

}  // namespace trainyard::engine
