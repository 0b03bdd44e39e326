#include "trainer/backend/cpu/bf16_conv_plan.h"

#include <algorithm>

namespace trainyard::engine {
namespace {

constexpr int64_t kStripBytes = 768 * 1024;  // of an image's pairs: most of a second cache
constexpr int64_t kSumFloats = 6 * 1024;     // of sums that wait for their rounding: half of a first cache

// Pairs that no window reaches beyond are the operand as they lie.
bool ReadsInPlace(const ConvForwardArgs& args, const Bf16Tiling& tiling) {
  const ConvShape& shape = args.shape;
  return args.x_in_pairs && shape.pad_top == 0 && shape.pad_left == 0 &&
         (shape.out_h - 1) * shape.stride_h + shape.kernel_h <= shape.in_h &&
         (shape.out_w - 1) * shape.stride_w + shape.kernel_w <= shape.in_w && tiling.run_elements() == shape.kernel_w * shape.channels;
}

}  // namespace

Bf16ConvPlan::Bf16ConvPlan(const ConvForwardArgs& args, int threads) : tiling(ConvTiling(args.shape)) {
  const ConvShape& shape = args.shape;
  in_place = ReadsInPlace(args, tiling);
  pixel = ChannelPairs(shape.channels) * kGroupPair;
  padded_w = in_place ? shape.in_w : int64_t{shape.out_w - 1} * shape.stride_w + shape.kernel_w;
  padded_row = padded_w * pixel;
  rows = shape.out_h / args.pool_h;
  const int64_t bytes = std::max<int64_t>(1, padded_row * 2 * shape.stride_h * args.pool_h);
  const int64_t by_size = (rows * bytes + kStripBytes - 1) / kStripBytes;
  const int64_t by_threads = threads == 1 ? 1 : (2 * int64_t{threads} + shape.panels - 1) / shape.panels;
  strips = static_cast<int>(std::clamp<int64_t>(std::max(by_size, by_threads), 1, std::max(1, rows)));
  strip_rows = std::max(1, (rows + strips - 1) / strips);
  if (args.rows_behind > 0) {
    strip_rows = std::max(1, strip_rows / args.rows_behind) * args.rows_behind;
    strips = (rows + strip_rows - 1) / strip_rows;
  }
  strip_elements = in_place ? 0 : InputRows(shape, strip_rows * args.pool_h) * padded_row + kRightSlack;
  bias_floats = tiling.padded_rows() * kLanes;
  thread_floats = FloatsOf(strip_elements);
  const int64_t y_pixel = int64_t{shape.outputs} * kLanes;
  sum_pixels = static_cast<int>(std::clamp<int64_t>(kSumFloats / std::max<int64_t>(1, y_pixel) / 4 * 4, 4, std::max(4, shape.out_w)));
  window_floats = args.max_pool ? args.pool_h * shape.out_w * y_pixel : 0;
  thread_floats += window_floats;
  if (args.y_in_pairs) thread_floats += (args.max_pool ? shape.out_w / args.pool_w : sum_pixels) * y_pixel;
}

void PackPixels(const Bf16Kernels& kernels, const float* from, int64_t pixels, int channels, uint16_t* to) {
  Bf16PackArgs pack;
  pack.from_row = kLanes;
  pack.width = kLanes;
  // An even number of channels makes the pixels one row of pairs.
  const bool together = channels % 2 == 0;
  const int64_t calls = together ? 1 : pixels;
  pack.k = static_cast<int>(together ? pixels * channels : channels);
  for (int64_t i = 0; i < calls; ++i) {
    pack.from = from + i * channels * kLanes;
    pack.to = to + i * ChannelPairs(channels) * kGroupPair;
    kernels.pack_right(pack);
  }
}

void StoreRounded(const ConvForwardArgs& args, float* sums, int64_t place, int64_t vectors, const CpuDevice& device) {
  uint16_t* const y = reinterpret_cast<uint16_t*>(args.y) + place;
  if (args.add != nullptr) {
    return device.bf16->sum_to_pairs(sums, reinterpret_cast<const uint16_t*>(args.add) + place, y, vectors, args.activation);
  }
  if (args.activation != Activation::kIdentity) device.kernels.activate(sums, sums, vectors, args.activation);
  device.bf16->to_pairs(sums, y, vectors);
}

}  // namespace trainyard::engine
