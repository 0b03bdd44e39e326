#include "trainer/backend/cpu/rows_weight_gradient.h"

#include <algorithm>

#include "trainer/backend/cpu/layout.h"

namespace trainyard::engine {
namespace {

// A product's block wants some channels for its rows.
constexpr int kLeastChannels = 6;

struct OutputRange {
  int begin, end;
};

// The outputs whose tap `tap` falls inside [0, in).
OutputRange InsideOutputs(int tap, int pad, int stride, int in, int out) {
  const int last = in - 1 + pad - tap;
  const int begin = std::max(0, (pad - tap + stride - 1) / stride);
  return {begin, last < 0 ? begin : std::max(begin, std::min(out, last / stride + 1))};
}

// Rows of dy: whole vectors, an odd number of them, so that they do not share few lines of the
// nearest cache.
int64_t RowStride(const ConvShape& shape) { return (VectorsFor(shape.outputs) | 1) * kLanes; }

// One thread's sums: the channels [begin, end) of every tap.
class ChannelsWeightGradient {
 public:
  ChannelsWeightGradient(const ConvShape& shape, const float* x, float* dw, float* rows, int begin, int end, const KernelTable& kernels)
      : shape_(shape),
        x_(x),
        dw_(dw),
        rows_(rows),
        begin_(begin),
        stride_(RowStride(shape)),
        pixel_(int64_t{shape.channels} * kLanes),
        kernels_(kernels) {
    product_.accumulate = true;
    product_.rows = end - begin;
    product_.columns = shape.outputs;
    product_.a_row = kLanes;
    product_.a_k = 1;
    product_.a_chunk = shape.stride_w * pixel_;
    product_.b_k = stride_;
    product_.b_chunk = kLanes * stride_;
    product_.c_row = shape.outputs;
    for (int tap = 0; tap < shape.kernel_h * shape.kernel_w; ++tap) {
      std::fill_n(Sums(tap), int64_t{product_.rows} * shape.outputs, 0.0f);
    }
  }

  // The part of one row of dy of one panel, of which `samples` lanes count.
  void AddRow(int panel, int row, const float* dy, int samples) {
    kernels_.panels_to_rows(dy, rows_, shape_.out_w, shape_.outputs, stride_);
    product_.chunk = samples;
    for (int h = 0; h < shape_.kernel_h; ++h) {
      const int in_row = row * shape_.stride_h - shape_.pad_top + h;
      if (in_row < 0 || in_row >= shape_.in_h) continue;
      for (int w = 0; w < shape_.kernel_w; ++w) {
        const OutputRange columns = InsideOutputs(w, shape_.pad_left, shape_.stride_w, shape_.in_w, shape_.out_w);
        if (columns.begin >= columns.end) continue;
        const int in_column = columns.begin * shape_.stride_w - shape_.pad_left + w;
        product_.k = (columns.end - columns.begin) * samples;
        product_.a = x_ + ((int64_t{panel} * shape_.in_h + in_row) * shape_.in_w + in_column) * pixel_ + int64_t{begin_} * kLanes;
        product_.b = rows_ + int64_t{columns.begin} * kLanes * stride_;
        product_.c = Sums(h * shape_.kernel_w + w);
        kernels_.product(product_);
      }
    }
  }

 private:
  float* Sums(int tap) const { return dw_ + (int64_t{tap} * shape_.channels + begin_) * shape_.outputs; }

  const ConvShape& shape_;
  const float* x_;
  float* dw_;
  float* rows_;
  const int begin_;
  const int64_t stride_;
  const int64_t pixel_;
  const KernelTable& kernels_;
  ProductArgs product_;
};

}  // namespace

bool PrefersRowsWeightGradient(const ConvShape& shape, int64_t samples) {
  if (shape.channels < kLeastChannels) return false;
  if (samples <= kLanes / 2) return true;
  // Turning dy over pays when several taps read it, and more than one vector of outputs, nearly
  // full, makes a block that hides latency.
  const int64_t padded = PaddedFloats(shape.outputs);
  return shape.kernel_h * shape.kernel_w > 1 && shape.outputs > kLanes && 10 * shape.outputs >= 9 * padded;
}

size_t RowsWeightGradientScratchFloats(const ConvShape& shape, int threads) {
  return static_cast<size_t>(threads) * shape.out_w * kLanes * static_cast<size_t>(RowStride(shape));
}

void RunRowsWeightGradient(const ConvShape& shape, int64_t samples, const float* x, const float* dy, float* dw, float* scratch,
                           CpuDevice& device) {
  const int64_t dy_row = int64_t{shape.out_w} * shape.outputs * kLanes;
  device.pool.Run(shape.channels, [&](int64_t begin, int64_t end, int thread) {
    ChannelsWeightGradient gradient(shape, x, dw, scratch + thread * RowsWeightGradientScratchFloats(shape, 1), static_cast<int>(begin),
                                    static_cast<int>(end), device.kernels);
    for (int panel = 0; panel < shape.panels; ++panel) {
      const int lanes = static_cast<int>(std::min<int64_t>(kLanes, samples - int64_t{panel} * kLanes));
      for (int row = 0; row < shape.out_h; ++row) gradient.AddRow(panel, row, dy + (int64_t{panel} * shape.out_h + row) * dy_row, lanes);
    }
  });
}

}  // namespace trainyard::engine
