// How the weight gradient of a convolution in float32 is computed.
#pragma once

#include <cstdint>

#include "trainer/backend/cpu/panels_weight_gradient.h"
#include "trainer/backend/cpu/pointwise_weight_gradient.h"
#include "trainer/backend/cpu/rows_weight_gradient.h"
#include "trainer/backend/cpu/winograd_weight_gradient.h"

namespace trainyard::engine {

enum class WeightGradientPath { kWinograd, kPointwise, kRows, kPanels };

// A function of shape and samples alone, as the paths add in different orders.
inline WeightGradientPath WeightGradientPathOf(const ConvShape& shape, int64_t samples) {
  if (PrefersWinogradWeightGradient(shape, samples)) return WeightGradientPath::kWinograd;
  if (PrefersPointwiseWeightGradient(shape, samples)) return WeightGradientPath::kPointwise;
  if (PrefersRowsWeightGradient(shape, samples)) return WeightGradientPath::kRows;
  return WeightGradientPath::kPanels;
}

}  // namespace trainyard::engine
