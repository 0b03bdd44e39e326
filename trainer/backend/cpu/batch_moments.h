// The mean and the variance of each channel of a batch, from sums over blocks of pixels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/pixel_blocks.h"

namespace trainyard::engine {

// The sums of a block are about the block's first value of each channel, which keeps them small
// where a mean is far from 0. All blocks are put together in doubles, in their order. So the result
// depends on the blocks, not on who summed them and when. Memory is the caller's: scratch_bytes()
// of any content, aligned as a vector.
class BatchMoments {
 public:
  BatchMoments(const PixelBlocks& blocks, CpuDevice& device);

  const PixelBlocks& blocks() const { return blocks_; }
  size_t scratch_bytes() const;
  // Of the value at `values`. Threads may sum different blocks at the same time.
  void SumBlock(const void* values, int64_t block, int thread, void* scratch) const;
  void SumAll(const void* values, void* scratch) const;
  // Once all blocks are summed: mean and biased variance [channels] over samples and pixels.
  void Finish(void* scratch, float* mean, float* variance) const;

 private:
  struct Memory;
  Memory In(void* scratch) const;

  PixelBlocks blocks_;
  CpuDevice* device_;
};

}  // namespace trainyard::engine
