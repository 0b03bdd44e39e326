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

  explicit GradientTiling(const ConvShape& shape)
      : tiles(shape, shape.out_h, shape.out_w, int64_t{shape.channels} + shape.outputs),
        gradient(WinogradElementFloats(int64_t{tiles.at_a_time} * shape.outputs)),
        product(WinogradElementFloats(int64_t{tiles.at_a_time} * shape.channels)) {}

  int64_t thread_floats() const { return tiles.elements * (gradient + product); }
};

// One thread's work: some blocks of the channels of a panel at a time.
class BlocksOfImages {
 public:
  BlocksOfImages(const WinogradInputGradientPlan& plan, const GradientTiling& tiling, const float* weights, float* scratch,
                 const KernelTable& kernels)
      : shape_(plan.shape),
        tiling_(tiling),
        weights_(weights),
        kernels_(kernels),
        gradient_(scratch),
        products_(scratch + tiling.tiles.elements * tiling.gradient),
        from_(WinogradTransformOf(tiling.tiles, shape_.out_h, shape_.out_w, shape_.outputs)),
        product_(WinogradProductOf(shape_.outputs, shape_.channels, plan.block, plan.columns)) {
    from_.channels = shape_.outputs;
    from_.transformed = gradient_;
    from_.element = tiling.gradient;
    to_.taps = shape_.kernel_h;
    to_.results = tiling.tiles.results;
    to_.tiles_w = tiling.tiles.width;
    to_.tile_channels = shape_.channels;
    to_.element = tiling.product;
    to_.y_column = int64_t{shape_.channels} * kLanes;
    to_.y_row = to_.y_column * shape_.in_w;
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
    from_.x = dy;
    for (int part = 0; part < tiling_.tiles.parts; ++part) {
      from_.tile_begin = to_.tile_begin = part * tiling_.tiles.at_a_time;
      from_.tiles = to_.tiles = tiling_.tiles.Tiles(part);
      kernels_.winograd_panel_output_gradient(from_);
      product_.shape.in_w = product_.shape.out_w = from_.tiles;
      for (int element = 0; element < tiling_.tiles.elements; ++element) {
        product_.x = gradient_ + element * tiling_.gradient;
        product_.weights = weights_ + element * WinogradElementWeights(shape_.channels, shape_.outputs);
        product_.y = products_ + element * tiling_.product;
        kernels_.conv_forward(product_, {0, 1, begin, end});
      }
      kernels_.winograd_panel_input_gradient(to_);
    }
  }

 private:
  const ConvShape& shape_;
  const GradientTiling& tiling_;
  const float* const weights_;
  const KernelTable& kernels_;
  float* const gradient_;  // [elements][tiles][outputs][16]
  float* const products_;  // [elements][tiles][channels][16]
  WinogradPanelArgs from_, to_;
  ConvForwardArgs product_;
};

}  // namespace

WinogradInputGradientPlan::WinogradInputGradientPlan(const ConvShape& shape, const CpuDevice& device) : shape(shape) {
  ConvShape product;
  product.outputs = shape.channels;
  product.in_w = product.out_w = GradientTiling(shape).tiles.at_a_time;
  const ConvForwardPlan plan = ConvForwardPlan::Direct(product, device.kernels);
  block = plan.block;
  columns = plan.columns;
}

size_t WinogradInputGradientScratchFloats(const ConvShape& shape, int threads) {
  return static_cast<size_t>(GradientTiling(shape).thread_floats() * threads);
}

void RunWinogradInputGradient(const WinogradInputGradientPlan& plan, const float* dy, const float* weights, float* dx, float* scratch,
                              CpuDevice& device) {
  const ConvShape& shape = plan.shape;
  const GradientTiling tiling(shape);
  const int64_t dy_panel = int64_t{shape.out_h} * shape.out_w * shape.outputs * kLanes;
  const int64_t dx_panel = int64_t{shape.in_h} * shape.in_w * shape.channels * kLanes;
  const int64_t blocks = (shape.channels + plan.block - 1) / plan.block;
  device.pool.Run(shape.panels * blocks, [&](int64_t begin, int64_t end, int thread) {
    BlocksOfImages images(plan, tiling, weights, scratch + thread * tiling.thread_floats(), device.kernels);
    while (begin < end) {
      const int64_t panel = begin / blocks;
      const int64_t first = begin - panel * blocks;
      const int64_t last = std::min(blocks, first + end - begin);
      images.Run(dy + panel * dy_panel, dx + panel * dx_panel, static_cast<int>(first), static_cast<int>(last));
      begin += last - first;
    }
  });
}

}  // namespace trainyard::engine
