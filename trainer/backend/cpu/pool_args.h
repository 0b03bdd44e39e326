// The geometry of a pooling window in the kernels' words.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/backend/cpu/kernels.h"
#include "trainer/graph/op.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// Everything but the pointers, for images [N, H, W, C].
absl::StatusOr<PoolArgs> MakePoolArgs(const Window& window, const Shape& images);

}  // namespace trainyard::engine
