#include "trainer/backend/cpu/bf16_conv_forward.h"

#include <algorithm>

#include "trainer/backend/cpu/bf16_tiling.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kStripBytes = 768 * 1024;  // of an image's pairs: most of a second cache
constexpr int64_t kSumFloats = 6 * 1024;     // of sums that wait for their rounding: half of a first cache
constexpr int kLeastLeftOut = 14;            // one product in so many pays for rows of y in several runs

int64_t ChannelPairs(int channels) { return (channels + 1) / 2; }

// The pairs that a window reads in a row of the image.
Bf16Tiling ConvTiling(int outputs, int kernel_h, int kernel_w, int channels) {
  return {outputs, kernel_h == 0 ? 0 : kernel_w * ChannelPairs(channels)};
}
Bf16Tiling ConvTiling(const ConvShape& shape) { return ConvTiling(shape.outputs, shape.kernel_h, shape.kernel_w, shape.channels); }

int64_t WeightsRow(const Bf16Tiling& tiling, int kernel_h) { return LeftRow(int64_t{kernel_h} * tiling.run_elements()); }

// A plain matrix product: all threads share one image of pairs, and divide the outputs.
bool IsMatrixProduct(const ConvForwardArgs& args) {
  const ConvShape& shape = args.shape;
  return shape.panels == 1 && shape.in_h == 1 && shape.out_h == 1 && shape.in_w == shape.out_w && shape.kernel_h == 1 &&
         shape.kernel_w == 1 && shape.stride_w == 1 && shape.pad_top == 0 && shape.pad_left == 0 && !args.max_pool && !args.x_in_pairs &&
         !args.y_in_pairs;
}

// Pairs that no window reaches beyond are the operand as they lie.
bool ReadsInPlace(const ConvForwardArgs& args, const Bf16Tiling& tiling) {
  const ConvShape& shape = args.shape;
  return args.x_in_pairs && shape.pad_top == 0 && shape.pad_left == 0 &&
         (shape.out_h - 1) * shape.stride_h + shape.kernel_h <= shape.in_h &&
         (shape.out_w - 1) * shape.stride_w + shape.kernel_w <= shape.in_w && tiling.run_elements() == shape.kernel_w * shape.channels;
}

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

// The geometry of a run: padded images, cut into strips of rows of y (after pooling).
struct Bf16ConvPlan {
  Bf16Tiling tiling;
  bool in_place;                        // x is the operand
  int64_t pixel, padded_w, padded_row;  // elements of a pixel; pixels and elements of a row
  int rows, strip_rows, strips;         // of y in a panel
  int sum_pixels;                       // that wait for their rounding, where y is pairs
  int64_t strip_elements, bias_floats, thread_floats;

  Bf16ConvPlan(const ConvForwardArgs& args, int threads) : tiling(ConvTiling(args.shape)) {
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
    if (args.max_pool) thread_floats += PaddedFloats(int64_t{args.pool_h} * shape.out_w * shape.outputs * kLanes);
    const int64_t y_pixel = int64_t{shape.outputs} * kLanes;
    sum_pixels = static_cast<int>(std::clamp<int64_t>(kSumFloats / std::max<int64_t>(1, y_pixel) / 4 * 4, 4, std::max(4, shape.out_w)));
    if (args.y_in_pairs) thread_floats += sum_pixels * y_pixel;
  }

  static int64_t InputRows(const ConvShape& shape, int out_rows) { return int64_t{out_rows - 1} * shape.stride_h + shape.kernel_h; }
};

// Pixels in a row of a panel as pairs of channels.
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

// The work of one thread on strips of one image after another.
class StripWorker {
 public:
  StripWorker(const ConvForwardArgs& args, const Bf16ConvPlan& plan, const float* bias, float* scratch, CpuDevice& device,
              const BehindRows* behind, int thread)
      : args_(args), shape_(args.shape), plan_(plan), device_(device), behind_(behind), thread_(thread), section_(device, plan.tiling) {
    image_ = reinterpret_cast<uint16_t*>(scratch);
    sums_ = scratch + FloatsOf(plan.strip_elements);
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
    if (args.y_in_pairs && rounds) to_pairs_ = device.bf16->product_to_pairs;
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
      if (args_.y_in_pairs) {
        RoundedRow(RowProduct(row, image, row - begin), panel * args_.y_panel + row * args_.y_row);
        continue;
      }
      float* y = args_.y + panel * args_.y_panel + row * args_.y_row;
      for (int r = 0; r < args_.pool_h; ++r) {
        Bf16ProductArgs product = RowProduct(row * args_.pool_h + r, image, (row - begin) * args_.pool_h + r);
        product.c = args_.max_pool ? sums_ + r * product.c_group * shape_.out_w : y;
        RunColumns(product, device_.bf16->product);
      }
      if (args_.max_pool) {
        Pool(y);
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
    uint16_t* const y = reinterpret_cast<uint16_t*>(args_.y) + place;
    Bf16ProductArgs product = whole;
    if (to_pairs_ != nullptr) {
      product.c_group = args_.y_column;
      product.pairs_to = y;
      product.add = args_.add == nullptr ? nullptr : reinterpret_cast<const uint16_t*>(args_.add) + place;
      product.relu = args_.activation == Activation::kRelu;
      return RunColumns(product, to_pairs_);
    }
    product.c = sums_;
    for (int column = 0; column < shape_.out_w; column += plan_.sum_pixels) {
      product.groups = std::min(plan_.sum_pixels, shape_.out_w - column);
      product.b = whole.b + column * product.b_group;
      section_.Run(product);
      const int64_t vectors = int64_t{product.groups} * shape_.outputs;
      if (args_.add != nullptr) {
        const auto* add = reinterpret_cast<const uint16_t*>(args_.add) + place + column * y_pixel;
        device_.bf16->sum_to_pairs(sums_, add, y + column * y_pixel, vectors, args_.activation);
        continue;
      }
      if (args_.activation != Activation::kIdentity) device_.kernels.activate(sums_, sums_, vectors, args_.activation);
      if (args_.y_column == y_pixel) {
        device_.bf16->to_pairs(sums_, y + column * y_pixel, vectors);
      } else {
        for (int i = 0; i < product.groups; ++i) {
          device_.bf16->to_pairs(sums_ + i * y_pixel, y + (column + i) * args_.y_column, shape_.outputs);
        }
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

  // The rows of one row of windows, pooled and activated.
  void Pool(float* y) const {
    PoolArgs pool;
    pool.panels = 1;
    pool.in_h = pool.size_h = pool.stride_h = args_.pool_h;
    pool.in_w = shape_.out_w;
    pool.out_w = shape_.out_w / args_.pool_w;
    pool.channels = shape_.outputs;
    pool.size_w = pool.stride_w = args_.pool_w;
    pool.x = sums_;
    pool.y = y;
    pool.argmax = args_.argmax == nullptr ? nullptr : args_.argmax + (y - args_.y);
    pool.activation = args_.activation;
    device_.kernels.max_pool(pool, 0, 1);
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
  Bf16ProductArgs product_;
  void (*to_pairs_)(const Bf16ProductArgs&) = nullptr;  // null: sums are rounded behind the product
  bool in_runs_ = false;                                // false: windows are taken whole
};

void RunMatrixProduct(const ConvForwardArgs& args, const Bf16ConvPlan& plan, const float* bias, float* scratch, CpuDevice& device) {
  const ConvShape& shape = args.shape;
  auto* const image = reinterpret_cast<uint16_t*>(scratch);
  device.pool.Run(shape.in_w, [&](int64_t begin, int64_t end, int) {
    PackPixels(*device.bf16, args.x + begin * shape.channels * kLanes, end - begin, shape.channels, image + begin * plan.pixel);
  });
  std::fill_n(image + shape.in_w * plan.pixel, kRightSlack, uint16_t{0});
  device.pool.Run(plan.tiling.blocks, [&](int64_t begin, int64_t end, int) {
    const int64_t row = begin * plan.tiling.block;
    Bf16ProductArgs product;
    plan.tiling.ApplyTo(product);
    product.rows = static_cast<int>(std::min<int64_t>(shape.outputs, end * plan.tiling.block) - row);
    product.groups = shape.out_w;
    product.a_row = WeightsRow(plan.tiling, 1);
    product.a = reinterpret_cast<const uint16_t*>(args.weights) + row * product.a_row;
    product.b = image;
    product.b_group = plan.pixel;
    product.c = args.y + row * kLanes;
    product.c_row = product.start_row = kLanes;
    product.c_group = args.y_column;
    product.start = bias == nullptr ? nullptr : bias + row * kLanes;
    Bf16Section(device, plan.tiling).Run(product);
    for (int column = 0; column < shape.out_w; ++column) {
      float* y = product.c + column * args.y_column;
      if (args.add != nullptr) {
        const float* const terms[] = {y, args.add + (y - args.y)};
        device.kernels.add(terms, 2, y, 0, product.rows);
      }
      if (args.activation != Activation::kIdentity) device.kernels.activate(y, y, product.rows, args.activation);
    }
  });
}

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
  if (IsMatrixProduct(args)) return static_cast<size_t>(plan.bias_floats + FloatsOf(args.shape.in_w * plan.pixel + kRightSlack));
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
