#include "trainer/backend/cpu/few_samples.h"

#include <algorithm>

namespace trainyard::engine {
namespace {

constexpr int64_t kMostSamples = kLanes / 2;
// Shorter sums do not pay for setting a product up.
constexpr int kLeastRun = 32;
// From so many on, samples fill the rows of a product's block.
constexpr int64_t kSamplesFillRows = 4;

struct TapRange {
  int begin, end;
  int size() const { return std::max(0, end - begin); }
};

// The taps of a window starting at `start` that fall inside [0, in).
TapRange InsideTaps(int start, int taps, int in) { return {std::max(0, -start), std::min(taps, in - start)}; }

int64_t PixelStride(const ConvShape& shape) { return int64_t{shape.channels} * kLanes; }

// One row of y for all samples: tile [samples][out_w][outputs].
void ForwardRow(const ConvShape& shape, int64_t samples, const float* x, const float* weights, const float* bias, int out_row, float* tile,
                const KernelTable& kernels) {
  const int64_t tile_row = int64_t{shape.out_w} * shape.outputs;
  for (int64_t pixel = 0; pixel < samples * shape.out_w; ++pixel) {
    float* to = tile + pixel * shape.outputs;
    if (bias == nullptr) {
      std::fill_n(to, shape.outputs, 0.0f);
    } else {
      std::copy_n(bias, shape.outputs, to);
    }
  }
  ProductArgs product;
  product.columns = shape.outputs;
  product.accumulate = true;
  product.a_k = kLanes;
  product.a_chunk = kLanes * kLanes;
  product.b_k = shape.outputs;
  product.b_chunk = product.b_k * kLanes;
  const int first_row = out_row * shape.stride_h - shape.pad_top;
  const TapRange rows = InsideTaps(first_row, shape.kernel_h, shape.in_h);
  const int room = shape.in_w - shape.kernel_w + shape.pad_left;  // the last whole window starts here, if at all
  const TapRange whole = {(shape.pad_left + shape.stride_w - 1) / shape.stride_w,
                          room < 0 ? 0 : std::min(shape.out_w, room / shape.stride_w + 1)};
  const auto at = [&](int row, int column) { return x + (int64_t{first_row + row} * shape.in_w + column) * PixelStride(shape); };
  for (int row = rows.begin; row < rows.end; ++row) {
    const float* row_weights = weights + int64_t{row} * shape.kernel_w * shape.channels * shape.outputs;
    for (int column = 0; column < shape.out_w; ++column) {
      const bool by_pixels = samples < kSamplesFillRows && column >= whole.begin && column < whole.end;
      if (by_pixels) {
        product.rows = whole.size();
        product.k = shape.kernel_w * shape.channels;
        product.a_row = shape.stride_w * PixelStride(shape);
        product.b = row_weights;
        product.c_row = shape.outputs;
        for (int64_t n = 0; n < samples; ++n) {
          product.a = at(row, column * shape.stride_w - shape.pad_left) + n;
          product.c = tile + n * tile_row + int64_t{column} * shape.outputs;
          kernels.product(product);
        }
        column = whole.end - 1;
        continue;
      }
      const int start = column * shape.stride_w - shape.pad_left;
      const TapRange taps = InsideTaps(start, shape.kernel_w, shape.in_w);
      if (taps.size() == 0) continue;
      product.rows = static_cast<int>(samples);
      product.k = taps.size() * shape.channels;
      product.a_row = 1;
      product.a = at(row, start + taps.begin);
      product.b = row_weights + int64_t{taps.begin} * shape.channels * shape.outputs;
      product.c_row = tile_row;
      product.c = tile + int64_t{column} * shape.outputs;
      kernels.product(product);
    }
  }
}

}  // namespace

bool IsFewSamples(const ConvShape& shape, int64_t samples) {
  return samples <= kMostSamples && shape.kernel_w * shape.channels >= kLeastRun;
}

size_t FewSamplesScratchFloats(const ConvShape& shape, int64_t samples, int threads) {
  return static_cast<size_t>(threads) * samples * shape.out_w * shape.outputs;
}

void RunFewSamples(const ConvShape& shape, int64_t samples, const float* x, const float* weights, const float* bias, float* y,
                   float* scratch, CpuDevice& device) {
  const int64_t row = int64_t{shape.out_w} * shape.outputs;
  device.pool.Run(shape.out_h, [&](int64_t begin, int64_t end, int thread) {
    float* tile = scratch + thread * samples * row;
    for (int64_t out_row = begin; out_row < end; ++out_row) {
      ForwardRow(shape, samples, x, weights, bias, static_cast<int>(out_row), tile, device.kernels);
      ConvertArgs convert;
      convert.from = tile;
      convert.to = y + out_row * row * kLanes;
      convert.samples = static_cast<int>(samples);
      convert.features = row;
      device.kernels.to_panels_f32(convert);
    }
  });
}

}  // namespace trainyard::engine
