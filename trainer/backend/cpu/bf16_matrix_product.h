// Convolutions that are plain matrix products, as dense layers are.
#pragma once

#include <cstdint>

#include "trainer/backend/cpu/bf16_conv_plan.h"

namespace trainyard::engine {

// One row of pixels times one tap. All threads share its pairs, and divide the outputs.
bool IsMatrixProduct(const ConvForwardArgs& args);

int64_t MatrixProductScratchFloats(const ConvForwardArgs& args, const Bf16ConvPlan& plan, int threads);
// `bias` is null or [outputs][16].
void RunMatrixProduct(const ConvForwardArgs& args, const Bf16ConvPlan& plan, const float* bias, float* scratch, CpuDevice& device);

}  // namespace trainyard::engine
