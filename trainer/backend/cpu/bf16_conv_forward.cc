#include "trainer/backend/cpu/bf16_conv_forward.h"

#include <algorithm>

#include "trainer/backend/cpu/bf16_conv_plan.h"
#include "trainer/backend/cpu/bf16_matrix_product.h"

namespace trainyard::engine {
namespace {

constexpr int kLeastLeftOut = 14;  // one product in so many pays for rows of y in several runs

// Neighbouring columns of y whose windows have the same columns of the kernel over x.
struct ColumnRun {
  int column, columns;  // of y
  int first, taps;      // of the kernel
};

// The longest run that begins at `column`.
ColumnRun RunAt(const ConvShape& shape, int column) {
  const auto first = [&](int c) { return std::clamp(shape.pad_left - c * shape.stride_w, 0, shape.kernel_w); };
  const auto end = [&](int c) { return std::clamp(shape.in_w + shape.pad_left - c * shape.stride_w, first(c), shape.kernel_w); };
  ColumnRun run = {column, 1, first(column), end(column) - first(column)};
  while (column + run.columns < shape.out_w && first(column + run.columns) == run.first &&
         end(column + run.columns) == run.first + run.taps) {
    ++run.columns;
  }
  return run;
}

// Whether runs leave out enough: a run of few columns is slower than one of many.
bool GainsByRuns(const ConvShape& shape) {
  const int all = shape.out_w * shape.kernel_w;
  int left_out = all;
  for (int column = 0; column < shape.out_w;) {
    const ColumnRun run = RunAt(shape, column);
    left_out -= run.columns * run.taps;
    column += run.columns;
  }
  return left_out * kLeastLeftOut >= all;
}

// The work of one thread on strips of one image after another.
class StripWorker {
 public:
  StripWorker(const ConvForwardArgs& args, const Bf16ConvPlan& plan, const float* bias, float* scratch, CpuDevice& device,
              const BehindRows* behind, int thread)
      : args_(args), shape_(args.shape), plan_(plan), device_(device), behind_(behind), thread_(thread), section_(device, plan.tiling) {
    image_ = reinterpret_cast<uint16_t*>(scratch);
    sums_ = scratch + FloatsOf(plan.strip_elements);
    pooled_ = sums_ + plan.window_floats;
    plan.tiling.ApplyTo(product_);
    product_.rows = shape_.outputs;
    product_.groups = shape_.out_w;
    product_.outer = shape_.kernel_h;
    if (product_.inner == 0) product_.outer = 0;
    product_.a = reinterpret_cast<const uint16_t*>(args.weights);
    product_.a_row = WeightsRow(plan.tiling, shape_.kernel_h);
    product_.a_outer = plan.tiling.run_elements();
    product_.b_group = shape_.stride_w * plan.pixel;
    product_.b_outer = plan.padded_row;
    product_.c_row = kLanes;
    product_.c_group = args.max_pool || args.y_in_pairs ? int64_t{shape_.outputs} * kLanes : args.y_column;
    product_.start = bias;
    product_.start_row = kLanes;
    // Tiles are told how many pairs they have before the first product.
    in_runs_ = device.bf16->begin == nullptr && product_.outer > 0 && GainsByRuns(shape_);
    const bool rounds = args.activation == Activation::kIdentity || args.activation == Activation::kRelu;
    if (args.y_in_pairs && !args.max_pool && rounds) to_pairs_ = device.bf16->product_to_pairs;
  }

  void Run(int panel, int strip) {
    const int begin = strip * plan_.strip_rows;
    const int end = std::min(plan_.rows, begin + plan_.strip_rows);
    if (begin >= end) return;
    if (product_.outer > 0 && !plan_.in_place) Pack(panel, begin * args_.pool_h, (end - begin) * args_.pool_h);
    const uint16_t* image = image_;
    if (plan_.in_place) {
      image = reinterpret_cast<const uint16_t*>(args_.x) +
              (int64_t{panel} * shape_.in_h + int64_t{begin} * args_.pool_h * shape_.stride_h) * plan_.padded_row;
    }
    for (int row = begin; row < end; ++row) {
      if (row > begin) EndRow(panel, row - 1);
      const int64_t place = panel * args_.y_panel + row * args_.y_row;
      if (args_.y_in_pairs && !args_.max_pool) {
        RoundedRow(RowProduct(row, image, row - begin), place);
        continue;
      }
      float* const y = args_.y + place;
      for (int r = 0; r < args_.pool_h; ++r) {
        Bf16ProductArgs product = RowProduct(row * args_.pool_h + r, image, (row - begin) * args_.pool_h + r);
        product.c = args_.max_pool ? sums_ + r * product.c_group * shape_.out_w : y;
        RunColumns(product, device_.bf16->product);
      }
      if (args_.max_pool) {
        Pool(place);
        continue;
      }
      if (args_.add != nullptr) Add(y, int64_t{shape_.out_w} * shape_.outputs);
      if (args_.activation != Activation::kIdentity) {
        for (int column = 0; column < shape_.out_w; ++column) {
          device_.kernels.activate(y + column * args_.y_column, y + column * args_.y_column, shape_.outputs, args_.activation);
        }
      }
    }
    EndRow(panel, end - 1);
  }

 private:
  void EndRow(int panel, int row) const {
    if (behind_ == nullptr || ((row + 1) % args_.rows_behind != 0 && row + 1 != plan_.rows)) return;
    (*behind_)(panel, row / args_.rows_behind, thread_);
  }

  // Of a row of the convolution that begins at row `at` of the image. Rows of the kernel that lie
  // above or below x are left out.
  Bf16ProductArgs RowProduct(int row, const uint16_t* image, int at) const {
    Bf16ProductArgs product = product_;
    const int top = row * shape_.stride_h - shape_.pad_top;
    const int first = std::clamp(-top, 0, product.outer);
    product.outer = std::clamp(shape_.in_h - top, first, product.outer) - first;
    product.a += first * product.a_outer;
    product.b = image + int64_t{at} * shape_.stride_h * plan_.padded_row + first * product.b_outer;
    return product;
  }

  // A row, without the columns of the kernel that lie beside x.
  void RunColumns(const Bf16ProductArgs& row, void (*run)(const Bf16ProductArgs&)) const {
    if (!in_runs_) return run(row);
    const int64_t pairs = ChannelPairs(shape_.channels);
    for (int column = 0; column < shape_.out_w;) {
      const ColumnRun columns = RunAt(shape_, column);
      column += columns.columns;
      Bf16ProductArgs product = row;
      product.groups = columns.columns;
      product.a += columns.first * 2 * pairs;
      product.b += columns.column * row.b_group + columns.first * plan_.pixel;
      const int64_t place = columns.column * row.c_group;
      if (row.c != nullptr) product.c += place;
      if (row.pairs_to != nullptr) product.pairs_to += place;
      if (row.add != nullptr) product.add += place;
      if (columns.taps < shape_.kernel_w) {
        product.inner = columns.taps > 0 ? 1 : 0;
        product.pairs = static_cast<int>(columns.taps * pairs);
      }
      run(product);
    }
  }

  // A row of y, at `place`, as pairs. Where a product cannot round: a few pixels at a time, whose
  // sums wait in the first cache.
  void RoundedRow(const Bf16ProductArgs& whole, int64_t place) {
    const int64_t y_pixel = int64_t{shape_.outputs} * kLanes;
    Bf16ProductArgs product = whole;
    if (to_pairs_ != nullptr) {
      product.c_group = args_.y_column;
      product.pairs_to = reinterpret_cast<uint16_t*>(args_.y) + place;
      product.add = args_.add == nullptr ? nullptr : reinterpret_cast<const uint16_t*>(args_.add) + place;
      product.relu = args_.activation == Activation::kRelu;
      return RunColumns(product, to_pairs_);
    }
    product.c = sums_;
    for (int column = 0; column < shape_.out_w; column += plan_.sum_pixels) {
      product.groups = std::min(plan_.sum_pixels, shape_.out_w - column);
      product.b = whole.b + column * product.b_group;
      section_.Run(product);
      if (args_.y_column == y_pixel) {
        StoreRounded(args_, sums_, place + column * y_pixel, int64_t{product.groups} * shape_.outputs, device_);
        continue;
      }
      for (int i = 0; i < product.groups; ++i) {
        StoreRounded(args_, sums_ + i * y_pixel, place + (column + i) * args_.y_column, shape_.outputs, device_);
      }
    }
  }

  // The rows of the padded image under rows [first, first + rows) of the convolution.
  void Pack(int panel, int first, int rows) {
    const int64_t input_rows = Bf16ConvPlan::InputRows(shape_, rows);
    const int left = std::clamp<int>(shape_.pad_left, 0, static_cast<int>(plan_.padded_w));
    const int from_column = std::max(0, -shape_.pad_left);
    const int inside = static_cast<int>(std::clamp<int64_t>(plan_.padded_w - left, 0, std::max(0, shape_.in_w - from_column)));
    const int64_t x_pixel = int64_t{shape_.channels} * kLanes;
    for (int64_t r = 0; r < input_rows; ++r) {
      uint16_t* to = image_ + r * plan_.padded_row;
      const int64_t row = int64_t{first} * shape_.stride_h - shape_.pad_top + r;
      if (row < 0 || row >= shape_.in_h || inside == 0) {
        std::fill_n(to, plan_.padded_row, uint16_t{0});
        continue;
      }
      std::fill_n(to, left * plan_.pixel, uint16_t{0});
      const int64_t from = ((int64_t{panel} * shape_.in_h + row) * shape_.in_w + from_column) * x_pixel;
      if (args_.x_in_pairs) {
        std::copy_n(reinterpret_cast<const uint16_t*>(args_.x) + from, inside * plan_.pixel, to + left * plan_.pixel);
      } else {
        PackPixels(*device_.bf16, args_.x + from, inside, shape_.channels, to + left * plan_.pixel);
      }
      std::fill_n(to + (left + inside) * plan_.pixel, plan_.padded_row - (left + inside) * plan_.pixel, uint16_t{0});
    }
    std::fill_n(image_ + input_rows * plan_.padded_row, kRightSlack, uint16_t{0});
  }

  // To `vectors` vectors of y that follow each other.
  void Add(float* y, int64_t vectors) const {
    const float* const terms[] = {y, args_.add + (y - args_.y)};
    device_.kernels.add(terms, 2, y, 0, vectors);
  }

  // The rows of one row of windows, pooled and activated, to `place` of y.
  void Pool(int64_t place) const {
    PoolArgs pool;
    pool.panels = 1;
    pool.in_h = pool.size_h = pool.stride_h = args_.pool_h;
    pool.in_w = shape_.out_w;
    pool.out_w = shape_.out_w / args_.pool_w;
    pool.channels = shape_.outputs;
    pool.size_w = pool.stride_w = args_.pool_w;
    pool.x = sums_;
    pool.y = args_.y_in_pairs ? pooled_ : args_.y + place;
    pool.argmax = args_.argmax == nullptr ? nullptr : args_.argmax + place;
    pool.activation = args_.activation;
    device_.kernels.max_pool(pool, 0, 1);
    if (args_.y_in_pairs)
      device_.bf16->to_pairs(pooled_, reinterpret_cast<uint16_t*>(args_.y) + place, int64_t{pool.out_w} * pool.channels);
  }

  const ConvForwardArgs& args_;
  const ConvShape& shape_;
  const Bf16ConvPlan& plan_;
  CpuDevice& device_;
  const BehindRows* const behind_;
  const int thread_;
  const Bf16Section section_;
  uint16_t* image_;
  float* sums_;
  float* pooled_;  // where y is pairs: a row of it that waits for its rounding
  Bf16ProductArgs product_;
  void (*to_pairs_)(const Bf16ProductArgs&) = nullptr;  // null: sums are rounded behind the product
  bool in_runs_ = false;                                // false: windows are taken whole
};

}  // namespace

size_t Bf16WeightFloats(const ConvShape& shape) {
  const Bf16Tiling tiling = ConvTiling(shape);
  return FloatsOf(tiling.padded_rows() * WeightsRow(tiling, shape.kernel_h));
}

void RunBf16Pack(const PackArgs& args, CpuDevice& device) {
  const int outputs = args.transposed ? args.in : args.out;
  const int inputs = args.transposed ? args.out : args.in;
  const int taps_h = (args.kernel_h - args.first_h + args.step_h - 1) / args.step_h;
  const int taps_w = (args.kernel_w - args.first_w + args.step_w - 1) / args.step_w;
  const Bf16Tiling tiling = ConvTiling(outputs, taps_h, taps_w, inputs);
  auto* const packed = reinterpret_cast<uint16_t*>(args.packed);
  Bf16PackArgs pack;
  pack.from_row = args.out;
  pack.k = inputs;
  pack.width = outputs;
  pack.to_row = WeightsRow(tiling, taps_h);
  // What no weight overwrites: rows that fill a block, and what a run holds beyond its channels.
  const bool whole = outputs == tiling.padded_rows() && tiling.run_elements() == inputs && taps_w == 1;
  if (!whole) std::fill_n(packed, tiling.padded_rows() * pack.to_row, uint16_t{0});
  for (int h = 0; h < taps_h; ++h) {
    for (int w = 0; w < taps_w; ++w) {
      const int tap_h = args.first_h + (args.transposed ? taps_h - 1 - h : h) * args.step_h;
      const int tap_w = args.first_w + (args.transposed ? taps_w - 1 - w : w) * args.step_w;
      pack.from = args.weights + (int64_t{tap_h} * args.kernel_w + tap_w) * args.in * args.out;
      pack.to = packed + h * tiling.run_elements() + w * 2 * ChannelPairs(inputs);
      (args.transposed ? device.bf16->pack_left_rows : device.bf16->pack_left_columns)(pack);
    }
  }
}

size_t Bf16ConvForwardScratchFloats(const ConvForwardArgs& args, int threads) {
  const Bf16ConvPlan plan(args, threads);
  if (IsMatrixProduct(args)) return static_cast<size_t>(plan.bias_floats + MatrixProductScratchFloats(args, plan, threads));
  return static_cast<size_t>(plan.bias_floats + threads * plan.thread_floats);
}

void RunBf16ConvForward(const ConvForwardArgs& args, CpuDevice& device, const BehindRows* behind) {
  const Bf16ConvPlan plan(args, device.pool.threads());
  float* bias = nullptr;
  if (args.bias != nullptr) {
    bias = args.scratch;
    for (int o = 0; o < args.shape.outputs; ++o) std::fill_n(bias + int64_t{o} * kLanes, kLanes, args.bias[o]);
  }
  float* const work = args.scratch + plan.bias_floats;
  if (IsMatrixProduct(args)) {
    RunMatrixProduct(args, plan, bias, work, device);
    if (behind != nullptr) CallForAllRows(*behind, args, device.pool);
    return;
  }
  device.pool.Run(int64_t{args.shape.panels} * plan.strips, [&](int64_t begin, int64_t end, int thread) {
    StripWorker worker(args, plan, bias, work + thread * plan.thread_floats, device, behind, thread);
    for (int64_t unit = begin; unit < end; ++unit) worker.Run(static_cast<int>(unit / plan.strips), static_cast<int>(unit % plan.strips));
  });
}

}  // namespace trainyard::engine
