// Chooses the register block of a gather and cuts its work among threads. Neither changes a sum.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

struct GatherPlan {
  int block = 1;
  int columns = 1;
  int group = 1;

  // For a geometry, by a model of the loop: multiply-adds, loads and the latency of a chain, whichever takes longest.
  static GatherPlan For(const ConvShape& shape, const KernelTable& kernels);
  void ApplyTo(GatherArgs& args) const;
};

// Packs weights for a gather.
void RunPack(const PackArgs& args, CpuDevice& device);

// Floats that one thread needs of GatherArgs::scratch; 0 without a pool.
int64_t GatherScratchFloats(const GatherArgs& args);

// All of the work, on the pool's threads. args.scratch holds GatherScratchFloats for every thread.
void RunGather(const GatherArgs& args, CpuDevice& device);

}  // namespace trainyard::engine
