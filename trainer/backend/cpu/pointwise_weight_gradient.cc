#include "trainer/backend/cpu/pointwise_weight_gradient.h"

#include <algorithm>

#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/panel_parts.h"

namespace trainyard::engine {
namespace {

// With fewer lanes a step of the product mostly waits for the other side. Measured against
// `conv_weight_gradient`: 16 lanes run at half its speed, 64 at up to twice.
constexpr int kLeastLanes = 64;
constexpr int64_t kRowsBytes = 32 * 1024;  // of turned pixels at a time: they stay in the nearest cache while all rows pass over them
constexpr int64_t kColumnsAtATime = 64;    // of a product's block

// One side of the product: where pixel `column` of row `row` of a panel lies.
struct Side {
  const float* values = nullptr;
  int channels = 0;
  int64_t column = 0, row = 0, panel = 0;  // floats between neighbours

  const float* At(int64_t p, int64_t r, int64_t c) const { return values + p * panel + r * row + c * column; }
};

// The geometry of a run. Without a stride an image is one row of pixels.
struct PointwiseWeightGradientPlan {
  int panels, rows, columns;
  Side x, dy;
  bool turns_x;    // the lanes are channels of x, and the product is the transpose of dw
  int64_t stride;  // floats of a turned pixel's sample: whole vectors, an odd number of them, so that rows do not share few cache lines
  int64_t most_pixels;           // turned at a time
  int64_t thread_floats;         // scratch: turned pixels, then what they add to a bias
  int64_t bias_at, part_floats;  // scratch of a part: its product, then its bias

  explicit PointwiseWeightGradientPlan(const ConvShape& shape) {
    const bool strided = shape.stride_h != 1 || shape.stride_w != 1;
    panels = shape.panels;
    rows = strided ? shape.out_h : 1;
    columns = strided ? shape.out_w : shape.out_h * shape.out_w;
    const int64_t x_pixel = int64_t{shape.channels} * kLanes;
    const int64_t dy_pixel = int64_t{shape.outputs} * kLanes;
    x = {.channels = shape.channels,
         .column = shape.stride_w * x_pixel,
         .row = shape.stride_h * x_pixel * shape.in_w,
         .panel = x_pixel * shape.in_w * shape.in_h};
    dy = {.channels = shape.outputs, .column = dy_pixel, .row = dy_pixel * shape.out_w, .panel = dy_pixel * shape.out_w * shape.out_h};
    turns_x = shape.channels < shape.outputs;
    const int lanes = std::min(shape.channels, shape.outputs);
    stride = (VectorsFor(lanes) | 1) * kLanes;
    const int64_t used = std::min(PaddedFloats(lanes), kColumnsAtATime);
    most_pixels = std::clamp<int64_t>(kRowsBytes / (used * kLanes * static_cast<int64_t>(sizeof(float))), 1, columns);
    thread_floats = most_pixels * kLanes * stride + PaddedFloats(shape.outputs);
    bias_at = PaddedFloats(int64_t{shape.channels} * shape.outputs);
    part_floats = bias_at + PaddedFloats(shape.outputs);
  }
  const Side& turned() const { return turns_x ? x : dy; }
  const Side& plain() const { return turns_x ? dy : x; }
};

// The rows [begin, end) of a part's product, by one thread.
class RowsOfProduct {
 public:
  RowsOfProduct(const PointwiseWeightGradientPlan& plan, float* product, float* db, float* scratch, int begin, int end,
                const KernelTable& kernels)
      : plan_(plan), db_(db), turned_(scratch), bias_(scratch + plan.most_pixels * kLanes * plan.stride), begin_(begin), kernels_(kernels) {
    args_.accumulate = true;
    args_.rows = end - begin;
    args_.columns = plan.turned().channels;
    args_.a_row = kLanes;
    args_.a_k = 1;
    args_.a_chunk = plan.plain().column;
    args_.b = turned_;
    args_.b_k = plan.stride;
    args_.b_chunk = kLanes * plan.stride;
    args_.c = product + int64_t{begin} * args_.columns;
    args_.c_row = args_.columns;
    std::fill_n(args_.c, int64_t{args_.rows} * args_.columns, 0.0f);
    // Where dy is read as it lies, the bias of a row comes with that row. Else all of it comes with
    // the first.
    bias_begin_ = plan.turns_x ? begin : 0;
    bias_end_ = plan.turns_x ? end : (begin == 0 ? plan.dy.channels : 0);
    for (int o = bias_begin_; db_ != nullptr && o < bias_end_; ++o) db_[o] = 0.0f;
  }

  // Pixels [column, column + pixels) of a row of a panel of which `samples` lanes count.
  void Add(int panel, int row, int column, int pixels, int samples) {
    const Side& from = plan_.turned();
    if (from.column == int64_t{from.channels} * kLanes) {
      kernels_.panels_to_rows(from.At(panel, row, column), turned_, pixels, from.channels, plan_.stride);
    } else {
      for (int p = 0; p < pixels; ++p) {
        kernels_.panels_to_rows(from.At(panel, row, column + p), turned_ + p * kLanes * plan_.stride, 1, from.channels, plan_.stride);
      }
    }
    args_.chunk = samples;
    args_.k = pixels * samples;
    args_.a = plan_.plain().At(panel, row, column) + int64_t{begin_} * kLanes;
    kernels_.product(args_);
    if (db_ == nullptr || bias_begin_ == bias_end_) return;
    kernels_.bias_gradient(plan_.dy.At(panel, row, column), bias_, pixels, plan_.dy.channels, bias_begin_, bias_end_);
    for (int o = bias_begin_; o < bias_end_; ++o) db_[o] += bias_[o];
  }

 private:
  const PointwiseWeightGradientPlan& plan_;
  float* const db_;
  float* const turned_;
  float* const bias_;
  const int begin_;
  const KernelTable& kernels_;
  ProductArgs args_;
  int bias_begin_ = 0, bias_end_ = 0;
};

}  // namespace

bool PrefersPointwiseWeightGradient(const ConvShape& shape, int64_t samples) {
  if (shape.kernel_h != 1 || shape.kernel_w != 1 || samples <= kLanes / 2) return false;
  const int lanes = std::min(shape.channels, shape.outputs);
  return lanes >= kLeastLanes && 10 * lanes >= 9 * PaddedFloats(lanes);
}

size_t PointwiseWeightGradientScratchFloats(const ConvShape& shape, int threads) {
  const PointwiseWeightGradientPlan plan(shape);
  return static_cast<size_t>(PanelParts(shape.panels).count() * plan.part_floats + threads * plan.thread_floats);
}

void RunPointwiseWeightGradient(const ConvShape& shape, int64_t samples, const float* x, const float* dy, float* dw, float* db,
                                float* scratch, CpuDevice& device) {
  PointwiseWeightGradientPlan plan(shape);
  plan.x.values = x;
  plan.dy.values = dy;
  const PanelParts parts(shape.panels);
  float* const of_threads = scratch + parts.count() * plan.part_floats;
  parts.Run(plan.plain().channels, device.pool, [&](int64_t part, int first, int last, int thread) {
    float* const product = scratch + part * plan.part_floats;
    RowsOfProduct rows(plan, product, db == nullptr ? nullptr : product + plan.bias_at, of_threads + thread * plan.thread_floats, first,
                       last, device.kernels);
    for (int panel = parts.begin(part); panel < parts.begin(part + 1); ++panel) {
      const int lanes = static_cast<int>(std::min<int64_t>(kLanes, samples - int64_t{panel} * kLanes));
      for (int row = 0; row < plan.rows; ++row) {
        for (int64_t column = 0; column < plan.columns; column += plan.most_pixels) {
          rows.Add(panel, row, static_cast<int>(column), static_cast<int>(std::min(plan.most_pixels, plan.columns - column)), lanes);
        }
      }
    }
  });
  float* const sum = plan.turns_x ? scratch : dw;
  SumParts(scratch, parts.count(), plan.part_floats, sum, 0, int64_t{shape.channels} * shape.outputs);
  if (db != nullptr) SumParts(scratch + plan.bias_at, parts.count(), plan.part_floats, db, 0, shape.outputs);
  if (!plan.turns_x) return;
  for (int c = 0; c < shape.channels; ++c) {
    for (int o = 0; o < shape.outputs; ++o) dw[int64_t{c} * shape.outputs + o] = sum[int64_t{o} * shape.channels + c];
  }
}

}  // namespace trainyard::engine
