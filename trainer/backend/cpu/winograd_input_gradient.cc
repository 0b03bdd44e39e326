#include "trainer/backend/cpu/winograd_input_gradient.h"

#include <algorithm>

#include "trainer/backend/cpu/conv_forward_plan.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/winograd_tiles.h"

namespace trainyard::engine {
namespace {

// How the tiles of an image are cut, and the floats of a thread's scratch.
struct GradientTiling {
  WinogradTiles tiles;
  int64_t gradient, product;  // floats between elements
  int64_t band = 0;           // floats of rows of dx that wait for their rounding: those under a run of tiles

  explicit GradientTiling(const WinogradInputGradientPlan& plan)
      : tiles(plan.shape, plan.shape.out_h, plan.shape.out_w, int64_t{plan.shape.channels} + plan.shape.outputs,
              plan.dx_in_pairs ? WinogradParts::kRows : WinogradParts::kEven),
        gradient(WinogradElementFloats(int64_t{tiles.at_a_time} * plan.shape.outputs)),
        product(WinogradElementFloats(int64_t{tiles.at_a_time} * plan.shape.channels)) {
    if (plan.dx_in_pairs) band = BandRows() * plan.shape.in_w * plan.shape.channels * kLanes;
  }

  int64_t BandRows() const { return int64_t{tiles.run / tiles.width} * tiles.results + tiles.taps - 1; }
  int64_t thread_floats() const { return tiles.elements * (gradient + product) + band; }
};

// Rows of dx in f32, of some channels, which are rounded once no further tile adds to them.
class Band {
 public:
  Band(const ConvShape& shape, const GradientTiling& tiling, float* rows, const CpuDevice& device)
      : shape_(shape), tiling_(tiling), rows_(rows), device_(device) {}

  // Of the channels [first, first + channels) of dx, a panel of pairs.
  void Begin(uint16_t* dx, int first, int channels) {
    dx_ = dx + int64_t{first} * kLanes;
    channels_ = channels;
    begin_ = -shape_.pad_top;
  }
  int64_t column() const { return int64_t{channels_} * kLanes; }
  int64_t row() const { return column() * shape_.in_w; }
  // Where row 0 of dx would lie.
  float* Origin() const { return rows_ - begin_ * row(); }

  // Stores the rows that only the tiles of this run and of those before it reach. The others move
  // to the band's begin.
  void EndRun(bool is_last) {
    const int rows = static_cast<int>(tiling_.BandRows());
    const int end = is_last ? shape_.in_h : begin_ + rows - (tiling_.tiles.taps - 1);
    const int64_t pixel = int64_t{shape_.channels} * kLanes;
    for (int r = std::max(0, begin_); r < std::min(end, shape_.in_h); ++r) {
      const float* from = Origin() + r * row();
      uint16_t* to = dx_ + r * pixel * shape_.in_w;
      if (column() == pixel) {
        device_.bf16->to_pairs(from, to, int64_t{channels_} * shape_.in_w);
        continue;
      }
      for (int c = 0; c < shape_.in_w; ++c) device_.bf16->to_pairs(from + c * column(), to + c * pixel, channels_);
    }
    if (is_last) return;
    std::copy(Origin() + end * row(), rows_ + rows * row(), rows_);
    begin_ = end;
  }

 private:
  const ConvShape& shape_;
  const GradientTiling& tiling_;
  float* const rows_;
  const CpuDevice& device_;
  uint16_t* dx_ = nullptr;
  int channels_ = 0;
  int begin_ = 0;  // the row of dx that the band begins with
};

// One thread's work: some blocks of the channels of a panel at a time.
class BlocksOfImages {
 public:
  BlocksOfImages(const WinogradInputGradientPlan& plan, const GradientTiling& tiling, const float* weights, float* scratch,
                 const CpuDevice& device)
      : plan_(plan),
        shape_(plan.shape),
        tiling_(tiling),
        weights_(weights),
        kernels_(device.kernels),
        transform_(WinogradKernels(device, plan.dy_in_pairs)),
        gradient_(scratch),
        products_(gradient_ + tiling.tiles.elements * tiling.gradient),
        band_(plan.shape, tiling, products_ + tiling.tiles.elements * tiling.product, device),
        from_(WinogradTransformOf(tiling.tiles, shape_.out_h, shape_.out_w, shape_.outputs)),
        product_(WinogradProductOf(shape_.outputs, shape_.channels, plan.block, plan.columns)),
        whole_(device, shape_.outputs, shape_.channels, tiling.tiles.elements, {gradient_, tiling.gradient}, weights,
               {products_, tiling.product}) {
    from_.channels = shape_.outputs;
    from_.transformed = gradient_;
    from_.element = tiling.gradient;
    to_.taps = shape_.kernel_h;
    to_.results = tiling.tiles.results;
    to_.tiles_w = tiling.tiles.width;
    to_.tile_channels = shape_.channels;
    to_.element = tiling.product;
    to_.out_h = shape_.in_h;
    to_.out_w = shape_.in_w;
    to_.pad_top = shape_.pad_top;
    to_.pad_left = shape_.pad_left;
  }

  // The blocks [begin, end) of a panel's dx.
  void Run(const float* dy, float* dx, int begin, int end) {
    const int first = begin * product_.block;
    to_.channels = std::min(end * product_.block, shape_.channels) - first;
    to_.transformed = products_ + int64_t{first} * kLanes;
    to_.y = dx + int64_t{first} * kLanes;
    to_.y_column = int64_t{shape_.channels} * kLanes;
    if (plan_.dx_in_pairs) {
      band_.Begin(reinterpret_cast<uint16_t*>(dx), first, to_.channels);
      to_.y_column = band_.column();
    }
    to_.y_row = to_.y_column * shape_.in_w;
    from_.x = dy;
    for (int part = 0; part < tiling_.tiles.parts; ++part) {
      from_.tile_begin = to_.tile_begin = tiling_.tiles.Begin(part);
      from_.tiles = to_.tiles = tiling_.tiles.Tiles(part);
      if (whole_.kernels() != nullptr) {
        whole_.kernels()->output_gradient(from_, whole_.units());
        whole_.Run(from_.tiles, first, to_.channels);
      } else {
        transform_.output_gradient(from_);
        Multiply(begin, end);
      }
      if (plan_.dx_in_pairs) to_.y = band_.Origin();
      kernels_.winograd_panel_input_gradient(to_);
      if (plan_.dx_in_pairs && (part + 1) % tiling_.tiles.parts_of_run == 0) band_.EndRun(part + 1 == tiling_.tiles.parts);
    }
  }

 private:
  // The blocks [begin, end) of channels.
  void Multiply(int begin, int end) {
    product_.shape.in_w = product_.shape.out_w = from_.tiles;
    for (int element = 0; element < tiling_.tiles.elements; ++element) {
      product_.x = gradient_ + element * tiling_.gradient;
      product_.weights = weights_ + element * WinogradElementWeights(shape_.channels, shape_.outputs);
      product_.y = products_ + element * tiling_.product;
      kernels_.conv_forward(product_, {0, 1, begin, end});
    }
  }

  const WinogradInputGradientPlan& plan_;
  const ConvShape& shape_;
  const GradientTiling& tiling_;
  const float* const weights_;
  const KernelTable& kernels_;
  const WinogradPanelKernels& transform_;
  float* const gradient_;  // [elements][tiles][outputs][16]
  float* const products_;  // [elements][tiles][channels][16]
  Band band_;
  WinogradPanelArgs from_, to_;
  ConvForwardArgs product_;
  WholeProducts whole_;
};

}  // namespace

WinogradInputGradientPlan::WinogradInputGradientPlan(const ConvShape& shape, bool dy_in_pairs, bool dx_in_pairs, const CpuDevice& device)
    : shape(shape), dy_in_pairs(dy_in_pairs), dx_in_pairs(dx_in_pairs) {
  ConvShape product;
  product.outputs = shape.channels;
  product.in_w = product.out_w = GradientTiling(*this).tiles.at_a_time;
  const ConvForwardPlan plan = ConvForwardPlan::Direct(product, device.kernels);
  block = dx_in_pairs ? std::max(2, plan.block / 2 * 2) : plan.block;  // whole pairs
  columns = plan.columns;
}

size_t WinogradInputGradientScratchFloats(const WinogradInputGradientPlan& plan, int threads) {
  return static_cast<size_t>(GradientTiling(plan).thread_floats() * threads);
}

void RunWinogradInputGradient(const WinogradInputGradientPlan& plan, const float* dy, const float* weights, float* dx, float* scratch,
                              CpuDevice& device) {
  const ConvShape& shape = plan.shape;
  const GradientTiling tiling(plan);
  const int64_t dy_panel = int64_t{shape.out_h} * shape.out_w * shape.outputs * kLanes;
  const int64_t dx_panel = int64_t{shape.in_h} * shape.in_w * shape.channels * kLanes;
  const int64_t blocks = (shape.channels + plan.block - 1) / plan.block;
  device.pool.Run(shape.panels * blocks, [&](int64_t begin, int64_t end, int thread) {
    BlocksOfImages images(plan, tiling, weights, scratch + thread * tiling.thread_floats(), device);
    while (begin < end) {
      const int64_t panel = begin / blocks;
      const int64_t first = begin - panel * blocks;
      const int64_t last = std::min(blocks, first + end - begin);
      images.Run(ElementAt(dy, plan.dy_in_pairs, panel * dy_panel), ElementAt(dx, plan.dx_in_pairs, panel * dx_panel),
                 static_cast<int>(first), static_cast<int>(last));
      begin += last - first;
    }
  });
}

}  // namespace trainyard::engine
