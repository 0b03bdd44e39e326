// Values of a part as they travel: float32 as they lie, or rounded to bfloat16.
#pragma once

#include <cstddef>
#include <span>

#include "trainer/kvstore/buffer_pool.h"
#include "trainer/tensor/dtype.h"
#include "trainer/transport/payload.h"

namespace trainyard::engine {

// The payload's next out.size() values, which travel as `type`; they must be there.
void ReadValues(PayloadReader& payload, DType type, std::span<float> out);
// The next `count` values: where they lie, or in `scratch` (at least `count` long).
std::span<const float> NextValues(PayloadReader& payload, DType type, size_t count, std::span<float> scratch);
// A payload of the values rounded to bfloat16, in memory of its own.
Payload Bfloat16Payload(std::span<const float> values, BufferPool& pool);

}  // namespace trainyard::engine
