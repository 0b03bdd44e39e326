#include "trainer/optim/clip.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

// Partial sums by position in the tensor modulo kLanes, added up in lane order. The result does not
// depend on vector width, nor on whether elements that are 0 are counted or left out.
constexpr size_t kLanes = 16;
using Lanes = std::array<double, kLanes>;

// Adds the squares of `values`, whose first one is at `position` in its tensor.
void AddSquares(std::span<const float> values, size_t position, Lanes& lanes) {
  size_t i = 0;
  for (; i < values.size() && (position + i) % kLanes != 0; ++i) {
    const double value = values[i];
    lanes[(position + i) % kLanes] += value * value;
  }
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (size_t lane = 0; i < values.size(); ++i, ++lane) {
    const double value = values[i];
    lanes[lane] += value * value;
  }
}

// Calls visit(values, position) with every stretch of `key`'s gradient that may differ from zero.
template <typename Visit>
void ForTouched(ParameterSet& gradients, int key, const Visit& visit) {
  const std::span<float> values = gradients.values(key);
  const TouchedRows& touched = gradients.touched_rows(key);
  if (touched.all()) {
    visit(values, 0);
    return;
  }
  const auto row_elements = static_cast<size_t>(gradients.spec(key).row_elements());
  for (const int32_t row : touched.ids()) {
    const size_t begin = static_cast<size_t>(row) * row_elements;
    visit(values.subspan(begin, row_elements), begin);
  }
}

double SumOfSquares(ParameterSet& gradients, int key) {
  Lanes lanes{};
  ForTouched(gradients, key, [&](std::span<float> values, size_t position) { AddSquares(values, position, lanes); });
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

void ScaleGradient(float factor, int key, ParameterSet& gradients) {
  ForTouched(gradients, key, [&](std::span<float> values, size_t /*position*/) {
    for (float& value : values) value *= factor;
  });
}

double ClipByGlobalNorm(double clip_norm, ParameterSet& gradients) {
  TY_CHECK(clip_norm > 0);
  double sum = 0;
  for (int key = 0; key < gradients.size(); ++key) {
    if (gradients.spec(key).trainable) sum += SumOfSquares(gradients, key);
  }
  const double norm = std::sqrt(sum);
  if (!std::isfinite(norm) || norm <= clip_norm) return norm;
  const float scale = static_cast<float>(clip_norm / norm);
  for (int key = 0; key < gradients.size(); ++key) {
    if (gradients.spec(key).trainable) ScaleGradient(scale, key, gradients);
  }
  return norm;
}

}  // namespace trainyard::engine
