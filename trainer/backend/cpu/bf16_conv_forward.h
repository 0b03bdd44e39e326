// conv_forward with operands of bfloat16. A strip of an image becomes pairs of channels, with its
// padding, right before the products that read it, so that it stays in the second cache.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/behind_rows.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Floats of packed weights for a geometry.
size_t Bf16WeightFloats(const ConvShape& shape);
// Writes args.packed; args.block is not looked at.
void RunBf16Pack(const PackArgs& args, CpuDevice& device);

// Floats of ConvForwardArgs::scratch, of all threads.
size_t Bf16ConvForwardScratchFloats(const ConvForwardArgs& args, int threads);
// block, columns and group are not looked at; packed must be true.
void RunBf16ConvForward(const ConvForwardArgs& args, CpuDevice& device, const BehindRows* behind);

}  // namespace trainyard::engine
