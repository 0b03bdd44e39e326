// The geometry of a pooling window in the kernels' words.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/backend/cpu/kernels.h"
#include "trainer/graph/op.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// Everything but the pointers, for images [N, H, W, C].
absl::StatusOr<PoolArgs> MakePoolArgs(const Window& window, const Shape& images);

// Of a gradient, the `windows` rows of windows from row `first` of a panel on, which lie over
// `rows` rows of the image. x and activated have elements of `element` bytes. y is the caller's.
PoolArgs GradientBand(const PoolArgs& pool, int64_t panel, int64_t first, int windows, int rows, int64_t element);

}  // namespace trainyard::engine
