#include "trainer/train/prediction_watch.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"
#include "trainer/picture/fit_image.h"

namespace trainyard::engine {
namespace {

// Softmax of the row's largest score.
double LargestProbability(std::span<const float> scores) {
  const double largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (const float score : scores) sum += std::exp(score - largest);
  return 1 / sum;
}

bool ArePictures(const Batch& batch) {
  const Shape& shape = batch.x.shape;
  return batch.x.dtype == DType::kU8 && shape.rank() == 4 && (shape[3] == 1 || shape[3] == kRgbChannels);
}

Image PictureAt(const Batch& batch, int64_t place) {
  const Shape& shape = batch.x.shape;
  const int64_t elements = shape[1] * shape[2] * shape[3];
  const auto from = batch.x.values<const uint8_t>().subspan(static_cast<size_t>(place * elements), static_cast<size_t>(elements));
  Image image{.height = static_cast<int>(shape[1]), .width = static_cast<int>(shape[2])};
  for (const uint8_t value : from) image.pixels.insert(image.pixels.end(), shape[3] == 1 ? kRgbChannels : 1, value);
  const int64_t side = std::max(shape[1], shape[2]);
  if (side <= PredictionWatch::kMostSide) return image;
  const Shape smaller{std::max<int64_t>(1, shape[1] * PredictionWatch::kMostSide / side),
                      std::max<int64_t>(1, shape[2] * PredictionWatch::kMostSide / side), kRgbChannels};
  absl::StatusOr<std::vector<uint8_t>> pixels = FitImage(image, smaller, ImageFit::kStretch);
  return pixels.ok() ? Image{.height = static_cast<int>(smaller[0]), .width = static_cast<int>(smaller[1]), .pixels = *std::move(pixels)}
                     : image;
}

}  // namespace

std::optional<PredictionWatch> PredictionWatch::For(const ExpectedData& expected) {
  if (expected.classes == 0 || expected.label_shape.rank() != 0) return std::nullopt;
  return PredictionWatch(expected.classes);
}

ModelRunner::BatchSeen PredictionWatch::Seen() {
  return [this](const Batch& batch, const Executor& executor) { return Take(batch, executor); };
}

absl::Status PredictionWatch::Take(const Batch& batch, const Executor& executor) {
  const auto classes = static_cast<size_t>(matrix_.classes());
  scores_.resize(static_cast<size_t>(batch.examples) * classes);
  TY_RETURN_IF_ERROR(executor.Fetch(kLogitsOutput, {DType::kF32, Shape({batch.examples, matrix_.classes()}), scores_.data()}));
  const auto labels = batch.y.values<const int32_t>();
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::span<const float> row(scores_.data() + i * classes, classes);
    const auto predicted = static_cast<int>(std::ranges::max_element(row) - row.begin());
    matrix_.Add(labels[i], predicted);
    if (predicted != labels[i] && ArePictures(batch))
      TakeMistake(batch, static_cast<int64_t>(i), {.label = labels[i], .predicted = predicted, .probability = LargestProbability(row)});
  }
  return absl::OkStatus();
}

void PredictionWatch::TakeMistake(const Batch& batch, int64_t place, Mistake mistake) {
  if (!std::isfinite(mistake.probability)) return;  // of a training that has diverged
  const auto after = std::ranges::find_if(mistakes_, [&](const Mistake& other) { return other.probability < mistake.probability; });
  if (after == mistakes_.end() && mistakes_.size() == kMostMistakes) return;
  mistake.image = PictureAt(batch, place);
  mistakes_.insert(after, std::move(mistake));
  if (mistakes_.size() > kMostMistakes) mistakes_.pop_back();
}

}  // namespace trainyard::engine
