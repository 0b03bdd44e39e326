#include "trainer/backend/cpu/winograd_conv2d.h"

#include <algorithm>

#include "trainer/backend/cpu/conv_forward_plan.h"
#include "trainer/backend/cpu/layout.h"

namespace trainyard::engine {
namespace {

constexpr int kElements = 16;                      // of a tile
constexpr int kLeastChannels = 16;                 // below, the transforms cost more than they save
constexpr int64_t kTransformedFloats = 128 << 10;  // of transformed values: a part of the second cache
constexpr int64_t kLeastTiles = 4;                 // at a time: packed weights pass once for all of them

// Floats between elements: whole vectors, an odd number of them, so that the elements of a channel
// do not share few lines of the nearest cache.
int64_t ElementFloats(int64_t tiles, int64_t channels) { return (tiles * channels | 1) * kLanes; }

// Of one element, packed.
int64_t ElementWeights(int64_t in, int64_t out) { return PaddedFloats(in * out); }

// How the tiles of an image are cut.
struct Tiling {
  int width = 0, tiles = 0;  // of an image
  int at_a_time = 1, parts = 1;
  int64_t input = 0, output = 0;  // floats between elements

  explicit Tiling(const ConvForwardArgs& args) {
    const ConvShape& shape = args.shape;
    const bool max_pool = args.max_pool;  // leaves out what does not fill a window
    width = max_pool ? shape.out_w / 2 : (shape.out_w + 1) / 2;
    tiles = width * (max_pool ? shape.out_h / 2 : (shape.out_h + 1) / 2);
    const int64_t most = kTransformedFloats / (int64_t{kElements} * kLanes * (shape.channels + shape.outputs));
    const int64_t fitting = std::max(most, kLeastTiles);
    parts = static_cast<int>((tiles + fitting - 1) / fitting);
    at_a_time = (tiles + parts - 1) / std::max(parts, 1);
    input = ElementFloats(at_a_time, shape.channels);
    output = ElementFloats(at_a_time, shape.outputs);
  }
  int64_t thread_floats() const { return kElements * (input + output); }
};

// One thread's work.
class TilesOfImages {
 public:
  TilesOfImages(const ConvForwardArgs& args, const Tiling& tiling, float* scratch, const KernelTable& kernels)
      : args_(args), tiling_(tiling), kernels_(kernels), input_(scratch), output_(scratch + kElements * tiling.input) {
    const ConvShape& shape = args.shape;
    tiles_.in_h = shape.in_h;
    tiles_.in_w = shape.in_w;
    tiles_.pad_top = shape.pad_top;
    tiles_.pad_left = shape.pad_left;
    tiles_.out_h = shape.out_h;
    tiles_.out_w = shape.out_w;
    tiles_.tiles_w = tiling.width;
    tiles_.bias = args.bias;
    tiles_.activation = args.activation;
    tiles_.y_row = args.y_row;
    tiles_.y_column = args.y_column;
    product_.shape.panels = 1;
    product_.shape.channels = shape.channels;
    product_.shape.outputs = shape.outputs;
    product_.y_column = int64_t{shape.outputs} * kLanes;
    product_.block = args.block;
    product_.columns = args.columns;
  }

  void Run(int panel, int part) {
    const ConvShape& shape = args_.shape;
    tiles_.tile_begin = part * tiling_.at_a_time;
    tiles_.tiles = std::min(tiling_.at_a_time, tiling_.tiles - tiles_.tile_begin);
    tiles_.x = args_.x + int64_t{panel} * shape.in_h * shape.in_w * shape.channels * kLanes;
    tiles_.channels = shape.channels;
    tiles_.transformed = input_;
    tiles_.element = tiling_.input;
    kernels_.winograd_panel_input(tiles_);
    Multiply();
    tiles_.channels = shape.outputs;
    tiles_.transformed = output_;
    tiles_.element = tiling_.output;
    tiles_.y = args_.y + panel * args_.y_panel;
    tiles_.argmax = args_.argmax == nullptr ? nullptr : args_.argmax + panel * args_.y_panel;
    (args_.max_pool ? kernels_.winograd_panel_pool : kernels_.winograd_panel_output)(tiles_);
  }

 private:
  void Multiply() {
    product_.shape.in_w = product_.shape.out_w = tiles_.tiles;
    const int blocks = (args_.shape.outputs + args_.block - 1) / args_.block;
    for (int element = 0; element < kElements; ++element) {
      product_.x = input_ + element * tiling_.input;
      product_.weights = args_.weights + element * ElementWeights(args_.shape.channels, args_.shape.outputs);
      product_.y = output_ + element * tiling_.output;
      kernels_.conv_forward(product_, {0, 1, 0, blocks});
    }
  }

  const ConvForwardArgs& args_;
  const Tiling& tiling_;
  const KernelTable& kernels_;
  float* const input_;   // [16][tiles][channels][16]
  float* const output_;  // [16][tiles][outputs][16]
  WinogradPanelArgs tiles_;
  ConvForwardArgs product_;
};

}  // namespace

bool PrefersWinogradConv2d(const ConvForwardArgs& args) {
  const ConvShape& shape = args.shape;
  if (args.max_pool && (args.pool_h != 2 || args.pool_w != 2)) return false;
  return shape.kernel_h == 3 && shape.kernel_w == 3 && shape.stride_h == 1 && shape.stride_w == 1 && shape.channels >= kLeastChannels &&
         shape.outputs >= kLeastChannels && shape.out_h >= 2 && shape.out_w >= 2;
}

int WinogradTilesAtATime(const ConvForwardArgs& args) { return Tiling(args).at_a_time; }

size_t WinogradWeightFloats(const ConvShape& shape) {
  return static_cast<size_t>(2 * kElements * ElementWeights(shape.channels, shape.outputs));
}

void RunWinogradPack(const PackArgs& args, CpuDevice& device) {
  const int64_t count = int64_t{args.in} * args.out;
  const int64_t element_floats = ElementWeights(args.in, args.out);
  float* const transformed = args.packed + kElements * element_floats;
  device.kernels.winograd_panel_weights(args.weights, transformed, count);
  // Of flipped taps: those of the taps with the first and the last exchanged.
  constexpr int kFlipped[4] = {3, 1, 2, 0};
  device.pool.Run(kElements, [&](int64_t begin, int64_t end, int) {
    PackArgs one = args;
    one.winograd = false;
    one.kernel_h = one.kernel_w = 1;
    for (int64_t element = begin; element < end; ++element) {
      const int64_t from = args.transposed ? kFlipped[element / 4] * 4 + kFlipped[element % 4] : element;
      one.weights = transformed + from * count;
      one.packed = args.packed + element * element_floats;
      device.kernels.pack(one);
    }
  });
}

size_t WinogradScratchFloats(const ConvForwardArgs& args, int threads) {
  return static_cast<size_t>(Tiling(args).thread_floats() * threads);
}

void RunWinogradConvForward(const ConvForwardArgs& args, CpuDevice& device) {
  const Tiling tiling(args);
  device.pool.Run(int64_t{args.shape.panels} * tiling.parts, [&](int64_t begin, int64_t end, int thread) {
    TilesOfImages tiles(args, tiling, args.scratch + thread * tiling.thread_floats(), device.kernels);
    for (int64_t unit = begin; unit < end; ++unit) tiles.Run(static_cast<int>(unit / tiling.parts), static_cast<int>(unit % tiling.parts));
  });
}

}  // namespace trainyard::engine
