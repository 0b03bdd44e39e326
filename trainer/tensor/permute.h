// Tensors with their axes, or blocks of an axis, in another order: what programs disagree on when
// they store the same weights.
#pragma once

#include <span>
#include <vector>

#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// Extent i is extent axes[i] of `shape`. `axes` has each axis of the shape once.
Shape PermutedShape(const Shape& shape, std::span<const int> axes);
// `values`, row-major of `shape`, as the row-major values of PermutedShape(shape, axes).
std::vector<float> Permuted(std::span<const float> values, const Shape& shape, std::span<const int> axes);
// The order that undoes `order`, of axes or of blocks.
std::vector<int> InverseOrder(std::span<const int> order);
// `values` has order.size() blocks of one length. Block i of the result is block order[i] of
// `values`.
std::vector<float> ReorderedBlocks(std::span<const float> values, std::span<const int> order);

}  // namespace trainyard::engine
