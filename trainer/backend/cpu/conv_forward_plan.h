// Chooses the register block of conv_forward and cuts its work among threads. Neither changes a
// sum. winograd_conv2d.h does the work for 3x3 and 5x5 windows of many channels. Of others
// bf16_conv_forward.h does it where the device multiplies in bf16.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/behind_rows.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

struct ConvForwardPlan {
  int block = 1;
  int columns = 1;
  int group = 1;
  int winograd = 0;

  // For a geometry and its pool, by a model of the loop: multiply-adds, loads and the latency of a
  // chain, whichever takes longest.
  static ConvForwardPlan For(const ConvForwardArgs& args, const CpuDevice& device);
  // Of the loop over windows itself.
  static ConvForwardPlan Direct(const ConvShape& shape, const KernelTable& kernels);
  void ApplyTo(ConvForwardArgs& args) const;
};

// Floats of packed weights, whole vectors.
size_t PackedWeightFloats(const ConvForwardArgs& args, const CpuDevice& device);
// Packs weights for RunConvForward, as the device's products want them.
void RunPack(const PackArgs& args, CpuDevice& device);

// Floats of ConvForwardArgs::scratch, of all threads.
size_t ConvForwardScratchFloats(const ConvForwardArgs& args, const CpuDevice& device);

// All of the work, on the pool's threads. Products of bf16 want packed weights.
// `behind`, if any, is called for all rows of y; not with a pool.
void RunConvForward(const ConvForwardArgs& args, CpuDevice& device, const BehindRows* behind = nullptr);

}  // namespace trainyard::engine
