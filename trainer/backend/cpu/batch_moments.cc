#include "trainer/backend/cpu/batch_moments.h"

#include <algorithm>
#include <bit>

namespace trainyard::engine {
namespace {

// A channel's value in lane 0 of the pixel at `x`.
float FirstOf(const void* x, bool bf16, int channel) {
  if (!bf16) return static_cast<const float*>(x)[int64_t{channel} * kLanes];
  const uint16_t pair = static_cast<const uint16_t*>(x)[int64_t{channel / 2} * kGroupPair + channel % 2];
  return std::bit_cast<float>(uint32_t{pair} << 16);
}

}  // namespace

struct BatchMoments::Memory {
  float* vectors;  // [threads][2 * channels][16]
  float* pivots;   // [blocks][channels], rows of whole vectors
  double* sums;    // [blocks][2 * channels]: of x - pivot, then of its square
  double* totals;  // [2 * channels]
  int64_t pivots_row;
};

BatchMoments::BatchMoments(const PixelBlocks& blocks, CpuDevice& device) : blocks_(blocks), device_(&device) {}

BatchMoments::Memory BatchMoments::In(void* scratch) const {
  const int64_t sums = int64_t{2} * blocks_.channels();
  Memory memory;
  memory.pivots_row = PaddedFloats(blocks_.channels());
  memory.vectors = static_cast<float*>(scratch);
  memory.pivots = memory.vectors + device_->pool.threads() * sums * kLanes;
  memory.sums = reinterpret_cast<double*>(memory.pivots + blocks_.count() * memory.pivots_row);
  memory.totals = memory.sums + blocks_.count() * sums;
  return memory;
}

size_t BatchMoments::scratch_bytes() const {
  const int64_t sums = int64_t{2} * blocks_.channels();
  const int64_t floats = device_->pool.threads() * sums * kLanes + blocks_.count() * PaddedFloats(blocks_.channels());
  return static_cast<size_t>(floats) * sizeof(float) + static_cast<size_t>((blocks_.count() + 1) * sums) * sizeof(double);
}

void BatchMoments::SumBlock(const void* values, int64_t block, int thread, void* scratch) const {
  const Memory memory = In(scratch);
  const int channels = blocks_.channels();
  BatchNormArgs args;
  args.x = blocks_.At(values, blocks_.Place(block, args));
  float* const pivot = memory.pivots + block * memory.pivots_row;
  for (int c = 0; c < channels; ++c) pivot[c] = FirstOf(args.x, blocks_.bf16(), c);
  args.pivot = pivot;
  args.scratch = memory.vectors + int64_t{2} * channels * kLanes * thread;
  args.sums = memory.sums + block * 2 * channels;
  blocks_.Kernels(*device_).moments(args);
}

void BatchMoments::SumAll(const void* values, void* scratch) const {
  device_->pool.Run(blocks_.count(), [&](int64_t begin, int64_t end, int thread) {
    for (int64_t block = begin; block < end; ++block) SumBlock(values, block, thread, scratch);
  });
}

// With n values about p, whose sums are s and t, sums about q are s + n d and t + d (2 s + n d) for
// d = p - q. Here q is the first block's pivot.
void BatchMoments::Finish(void* scratch, float* mean, float* variance) const {
  const Memory memory = In(scratch);
  const int channels = blocks_.channels();
  std::fill_n(memory.totals, 2 * channels, 0.0);
  for (int64_t block = 0; block < blocks_.count(); ++block) {
    BatchNormArgs place;
    blocks_.Place(block, place);
    const double values = static_cast<double>(place.pixels) * place.lanes;
    const float* const pivot = memory.pivots + block * memory.pivots_row;
    const double* const sums = memory.sums + block * 2 * channels;
    for (int c = 0; c < channels; ++c) {
      const double shift = static_cast<double>(pivot[c]) - static_cast<double>(memory.pivots[c]);
      memory.totals[c] += sums[c] + values * shift;
      memory.totals[channels + c] += sums[channels + c] + shift * (2.0 * sums[c] + values * shift);
    }
  }
  for (int c = 0; c < channels; ++c) {
    const double distance = memory.totals[c] / blocks_.values();
    const double square = memory.totals[channels + c] / blocks_.values();
    mean[c] = static_cast<float>(static_cast<double>(memory.pivots[c]) + distance);
    variance[c] = static_cast<float>(std::max(0.0, square - distance * distance));
  }
}

}  // namespace trainyard::engine
