#include "trainer/tensor/finite.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace trainyard::engine {

// An exponent of all ones is infinity or NaN (IEEE 754, 3.4). Comparing whole numbers, the loop has
// no branch and no order to keep.
bool AllFinite(std::span<const float> values) {
  constexpr uint32_t kMagnitude = 0x7fffffff;
  constexpr uint32_t kInfinity = 0x7f800000;
  uint32_t largest = 0;
  for (const float value : values) largest = std::max(largest, std::bit_cast<uint32_t>(value) & kMagnitude);
  return largest < kInfinity;
}

std::string FirstNotFinite(const ParameterSet& set) {
  for (int key = 0; key < set.size(); ++key) {
    if (!AllFinite(set.values(key))) return set.spec(key).name;
  }
  return "";
}

}  // namespace trainyard::engine
