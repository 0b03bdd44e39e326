// Operands of products that lie in memory as f32, rounded to 16 bits.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/elements.h"
#include "trainer/backend/cuda/work.h"

namespace trainyard::engine::cuda {

// `rows` rows of `width` elements, `stride` apart in `from` and side by side in `to`.
inline absl::Status RoundOperand(Device& device, Element element, const void* from, void* to, int64_t rows, int64_t width, int64_t stride) {
  return WithElement(element, [&]<typename T>() {
    const CopyRows<float, T> copy{static_cast<const float*>(from), static_cast<T*>(to), width, stride, width};
    return device.Launch(Each<CopyRows<float, T>>{copy, rows * width});
  });
}

}  // namespace trainyard::engine::cuda
