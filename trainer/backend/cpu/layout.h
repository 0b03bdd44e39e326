// How values lie in memory on the cpu backend: batched ones in panels [N/16][...][C][16], those
// that lay_out.h puts in rows and all others row-major.
#pragma once

#include <cstdint>

#include "trainer/backend/cpu/kernels.h"
#include "trainer/graph/node.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {

static_assert(kLanes * sizeof(float) == kBufferAlignment);  // a vector

// How many whole vectors hold `floats` elements, and their elements.
constexpr int64_t VectorsFor(int64_t floats) { return (floats + kLanes - 1) / kLanes; }
constexpr int64_t PaddedFloats(int64_t floats) { return VectorsFor(floats) * kLanes; }

// A batched value of shape [samples, .., channels]; a value of rank 1 has one channel.
struct PanelLayout {
  int64_t samples = 0;
  int64_t panels = 0;
  int64_t features = 0;  // elements of one sample
  int64_t channels = 1;
  int64_t pixels = 0;  // features / channels: what lies between the batch and the channels

  explicit PanelLayout(const Shape& shape) {
    samples = shape[0];
    panels = VectorsFor(samples);
    features = 1;
    for (int axis = 1; axis < shape.rank(); ++axis) features *= shape[axis];
    if (shape.rank() > 1) channels = shape[-1];
    pixels = channels == 0 ? 0 : features / channels;
  }

  int64_t vectors() const { return panels * features; }
};

// Whole vectors that hold a batched value in rows, whose elements lie one after the other, the last
// vector perhaps in part.
inline int64_t RowVectors(const Shape& shape) { return VectorsFor(shape.elements()); }

// Vectors of a batched value of either layout, for what works element by element.
inline int64_t VectorsOf(const ValueSpec& spec) { return spec.row_major ? RowVectors(spec.shape) : PanelLayout(spec.shape).vectors(); }

}  // namespace trainyard::engine
