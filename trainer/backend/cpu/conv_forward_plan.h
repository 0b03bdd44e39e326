// Chooses the register block of conv_forward and cuts its work among threads. Neither changes a
// sum.
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

// Packs weights for conv_forward.
void RunPack(const PackArgs& args, CpuDevice& device);

// Floats that one thread needs of ConvForwardArgs::scratch; 0 without a pool.
int64_t ConvForwardScratchFloats(const ConvForwardArgs& args);

// All of the work, on the pool's threads. args.scratch holds ConvForwardScratchFloats for every
// thread.
void RunConvForward(const ConvForwardArgs& args, CpuDevice& device);

}  // namespace trainyard::engine
