// The shape of a convolution on panels, and of the pool behind it.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/backend/cpu/kernels.h"
#include "trainer/graph/op.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// x [N, H, W, C], kernel [Kh, Kw, C, D]. Errors of PlaceWindow.
absl::StatusOr<ConvShape> MakeConvShape(const Window& window, const Shape& x, const Shape& kernel);

}  // namespace trainyard::engine
