// What the host's optimizer makes of a device's results, for tests that expect the same of devices.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "trainer/optim/optimizer.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine::cuda {

// Zeros.
inline ParameterSet EmptyLike(const ParameterSet& set) { return ParameterSet({set.specs().begin(), set.specs().end()}); }

// Infinite where a value is not a number.
inline double FarthestApart(const ParameterSet& a, const ParameterSet& b) {
  double farthest = 0;
  for (int key = 0; key < a.size(); ++key) {
    for (size_t i = 0; i < a.values(key).size(); ++i) {
      const double apart = std::abs(a.values(key)[i] - b.values(key)[i]);
      farthest = std::isnan(apart) ? std::numeric_limits<double>::infinity() : std::max(farthest, apart);
    }
  }
  return farthest;
}

// `results` of a step: gradients, and next values of what is not trainable. `slots` in the
// optimizer's order.
inline void ApplyOnHost(Optimizer& optimizer, const UpdateContext& context, const ParameterSet& results, ParameterSet& parameters,
                        std::vector<ParameterSet>& slots) {
  for (int key = 0; key < results.size(); ++key) {
    if (!results.spec(key).trainable) {
      std::ranges::copy(results.values(key), parameters.values(key).begin());
      continue;
    }
    std::vector<std::span<float>> of_key;
    for (ParameterSet& slot : slots) of_key.push_back(slot.values(key));
    optimizer.Apply(context, parameters.values(key), results.values(key), of_key);
  }
}

}  // namespace trainyard::engine::cuda
