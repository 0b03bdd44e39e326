// Chooses the register block of conv_forward and cuts its work among threads. Neither changes a
// sum. Where the device multiplies in bf16, bf16_conv_forward.h does the work.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

struct ConvForwardPlan {
  int block = 1;
  int columns = 1;
  int group = 1;

  // For a geometry, by a model of the loop: multiply-adds, loads and the latency of a chain,
  // whichever takes longest.
  static ConvForwardPlan For(const ConvShape& shape, const KernelTable& kernels);
  void ApplyTo(ConvForwardArgs& args) const;
};

// Floats of packed weights for a geometry, whole vectors.
size_t PackedWeightFloats(const ConvShape& shape, const CpuDevice& device);
// Packs weights for RunConvForward, as the device's products want them.
void RunPack(const PackArgs& args, CpuDevice& device);

// Floats of ConvForwardArgs::scratch, of all threads.
size_t ConvForwardScratchFloats(const ConvForwardArgs& args, const CpuDevice& device);

// All of the work, on the pool's threads. Products of bf16 want packed weights.
void RunConvForward(const ConvForwardArgs& args, CpuDevice& device);

}  // namespace trainyard::engine
