// The order of a tensor's axes. Ours have the sample first and the channels last (tensor/shape.h).
// ONNX has images as [samples, channels, height, width], and sequences as [steps, samples,
// features].
#pragma once

#include <string>
#include <vector>

#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// Axis i of the tensor is axis order[i] of ours.
using AxisOrder = std::vector<int>;

AxisOrder OurOrder(int rank);
// [samples, channels, all others]
AxisOrder ChannelsFirst(int rank);
// [steps, samples, features]; rank 3.
AxisOrder StepsFirst();

// Where our last axis stands.
int PlaceOfLast(const AxisOrder& order);
// The `perm` of an ONNX Transpose from one order to another.
std::vector<int64_t> TransposeOf(const AxisOrder& from, const AxisOrder& to);
// Whether a tensor of our shape `shape` has its elements in our order nevertheless, sample by
// sample, since axes of extent 1 alone stand elsewhere.
bool HasOurElements(const AxisOrder& order, const Shape& shape);

}  // namespace trainyard::engine
