#include "trainer/tensor/permute.h"

#include <algorithm>
#include <array>

#include "trainer/base/check.h"

namespace trainyard::engine {

Shape PermutedShape(const Shape& shape, std::span<const int> axes) {
  TY_CHECK(static_cast<int>(axes.size()) == shape.rank());
  Shape permuted = shape;
  for (size_t i = 0; i < axes.size(); ++i) permuted.Set(static_cast<int>(i), shape[axes[i]]);
  return permuted;
}

std::vector<float> Permuted(std::span<const float> values, const Shape& shape, std::span<const int> axes) {
  TY_CHECK(static_cast<int64_t>(values.size()) == shape.elements());
  const Shape to = PermutedShape(shape, axes);
  const int rank = shape.rank();
  std::array<int64_t, Shape::kMaxRank> from_steps{};  // elements from one index of an axis to the next, in `values`
  int64_t step = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    from_steps[static_cast<size_t>(axis)] = step;
    step *= shape[axis];
  }
  std::array<int64_t, Shape::kMaxRank> steps{};
  for (int axis = 0; axis < rank; ++axis)
    steps[static_cast<size_t>(axis)] = from_steps[static_cast<size_t>(axes[static_cast<size_t>(axis)])];
  std::vector<float> permuted(values.size());
  std::array<int64_t, Shape::kMaxRank> at{};
  int64_t place = 0;
  for (float& value : permuted) {
    value = values[static_cast<size_t>(place)];
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      place += steps[a];
      if (++at[a] < to[axis]) break;
      place -= at[a] * steps[a];
      at[a] = 0;
    }
  }
  return permuted;
}

std::vector<int> InverseOrder(std::span<const int> order) {
  std::vector<int> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return inverse;
}

std::vector<float> ReorderedBlocks(std::span<const float> values, std::span<const int> order) {
  TY_CHECK(!order.empty() && values.size() % order.size() == 0);
  const size_t length = values.size() / order.size();
  std::vector<float> reordered;
  reordered.reserve(values.size());
  for (const int block : order) {
    const auto from = values.subspan(static_cast<size_t>(block) * length, length);
    reordered.insert(reordered.end(), from.begin(), from.end());
  }
  return reordered;
}

}  // namespace trainyard::engine
