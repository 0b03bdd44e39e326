#include "trainer/predict/number_errors.h"

#include <cmath>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {

std::optional<NumberErrors> NumberErrors::For(const ExpectedData& expected, const std::optional<LabelScale>& scale) {
  if (expected.classes > 0) return std::nullopt;
  return NumberErrors(scale.value_or(LabelScale()));
}

ModelRunner::BatchSeen NumberErrors::Seen() {
  return [this](const Batch& batch, const Executor& executor) { return Take(batch, executor); };
}

absl::Status NumberErrors::Take(const Batch& batch, const Executor& executor) {
  const std::span<const float> labels = batch.y.values<const float>();
  predictions_.resize(labels.size());
  TY_RETURN_IF_ERROR(executor.Fetch(kPredictionOutput, {DType::kF32, batch.y.shape, predictions_.data()}));
  Add(predictions_, labels);
  return absl::OkStatus();
}

// The labels' distances are those of Welford (1962), "Note on a method for calculating corrected
// sums of squares and products".
void NumberErrors::Add(std::span<const float> predictions, std::span<const float> labels) {
  TY_CHECK(predictions.size() == labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    const double label = labels[i] * scale_.deviation + scale_.mean;
    const double error = (static_cast<double>(predictions[i]) - labels[i]) * scale_.deviation;
    ++count_;
    absolute_ += std::abs(error);
    squares_ += error * error;
    const double from_mean = label - mean_;
    mean_ += from_mean / static_cast<double>(count_);
    distance_ += from_mean * (label - mean_);
  }
}

std::optional<NumberScore> NumberErrors::Score() const {
  if (count_ == 0) return std::nullopt;
  const auto count = static_cast<double>(count_);
  NumberScore score{.mean_absolute = absolute_ / count, .root_mean_square = std::sqrt(squares_ / count), .r2 = std::nullopt};
  if (distance_ > 0) score.r2 = 1 - squares_ / distance_;
  return score;
}

}  // namespace trainyard::engine
