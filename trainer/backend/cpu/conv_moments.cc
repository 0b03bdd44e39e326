#include "trainer/backend/cpu/conv_moments.h"

#include <algorithm>

#include "trainer/backend/cpu/conv_forward_plan.h"
#include "trainer/backend/cpu/winograd_conv2d.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kRowBytes = 256 * 1024;  // of rows that wait for their sums: a small part of a second cache

// Rows of y to sum at a time.
int RowsAtATime(const ConvForwardArgs& args, const ValueSpec& y) {
  const ConvShape& shape = args.shape;
  if (args.winograd != 0 && WinogradRowsAtATime(args) > 0) return WinogradRowsAtATime(args);
  const int64_t pixel_bytes = int64_t{shape.outputs} * kLanes * ElementBytes(y);
  const int64_t pixels = std::min(PixelBlocks::kMostPixels, kRowBytes / std::max<int64_t>(1, pixel_bytes));
  return static_cast<int>(std::clamp<int64_t>(pixels / std::max(1, shape.out_w), 1, std::max(1, shape.out_h)));
}

PixelBlocks BlocksOf(ConvForwardArgs& args, const ValueSpec& y) {
  args.rows_behind = RowsAtATime(args, y);
  return PixelBlocks(y, int64_t{args.rows_behind} * std::max(1, args.shape.out_w));
}

}  // namespace

ConvMoments::ConvMoments(ConvForwardArgs& args, const ValueSpec& y, CpuDevice& device)
    : device_(&device), moments_(BlocksOf(args, y), device) {}

void ConvMoments::Run(const ConvForwardArgs& args, void* scratch, float* mean, float* variance) const {
  const auto sum = [&](int panel, int call, int thread) {
    moments_.SumBlock(args.y, panel * moments_.blocks().per_panel() + call, thread, scratch);
  };
  const BehindRows behind = sum;
  RunConvForward(args, *device_, &behind);
  moments_.Finish(scratch, mean, variance);
}

}  // namespace trainyard::engine
