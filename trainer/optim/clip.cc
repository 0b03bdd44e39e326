#include "trainer/optim/clip.h"

#include <cmath>
#include <cstddef>
#include <span>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

// Partial sums by position modulo kLanes, added up in lane order: independent of vector width, and open to vectorisation.
constexpr size_t kLanes = 16;

double SumOfSquares(std::span<const float> values) {
  double lanes[kLanes] = {};
  size_t i = 0;
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
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

double ClipByGlobalNorm(double clip_norm, ParameterSet& gradients) {
  TY_CHECK(clip_norm > 0);
  double sum = 0;
  for (int key = 0; key < gradients.size(); ++key) {
    if (gradients.spec(key).trainable) sum += SumOfSquares(gradients.values(key));
  }
  const double norm = std::sqrt(sum);
  if (!std::isfinite(norm) || norm <= clip_norm) return norm;
  const float scale = static_cast<float>(clip_norm / norm);
  for (int key = 0; key < gradients.size(); ++key) {
    if (!gradients.spec(key).trainable) continue;
    for (float& value : gradients.values(key)) value *= scale;
  }
  return norm;
}

}  // namespace trainyard::engine
