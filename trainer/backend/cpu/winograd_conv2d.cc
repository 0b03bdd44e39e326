#include "trainer/backend/cpu/winograd_conv2d.h"

#include <algorithm>

#include "trainer/backend/cpu/conv_forward_plan.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/winograd_tiles.h"

namespace trainyard::engine {
namespace {

// Of a tile.
int64_t ElementsOf(int taps, int results) { return int64_t{results + taps - 1} * (results + taps - 1); }

// How the tiles of an image are cut, and the floats of a thread's scratch.
struct Tiling {
  WinogradTiles tiles;
  int64_t input = 0, output = 0;  // floats between elements

  // A pool leaves out what does not fill a window.
  explicit Tiling(const ConvForwardArgs& args)
      : tiles(args.shape, args.max_pool ? args.shape.out_h & ~1 : args.shape.out_h,
              args.max_pool ? args.shape.out_w & ~1 : args.shape.out_w, int64_t{args.shape.channels} + args.shape.outputs),
        input(WinogradElementFloats(int64_t{tiles.at_a_time} * args.shape.channels)),
        output(WinogradElementFloats(int64_t{tiles.at_a_time} * args.shape.outputs)) {}

  int64_t thread_floats() const { return tiles.elements * (input + output); }
};

// One thread's work.
class TilesOfImages {
 public:
  TilesOfImages(const ConvForwardArgs& args, const Tiling& tiling, float* scratch, const CpuDevice& device)
      : args_(args),
        tiling_(tiling),
        kernels_(device.kernels),
        from_(WinogradKernels(device, args.x_in_pairs)),
        to_(WinogradKernels(device, args.y_in_pairs)),
        input_(scratch),
        output_(scratch + tiling.tiles.elements * tiling.input),
        tiles_(WinogradInputOf(args.shape, tiling.tiles)),
        product_(WinogradProductOf(args.shape.channels, args.shape.outputs, args.block, args.columns)),
        whole_(device, args.shape.channels, args.shape.outputs, tiling.tiles.elements, {input_, tiling.input}, args.weights,
               {output_, tiling.output}) {
    const ConvShape& shape = args.shape;
    tiles_.out_h = shape.out_h;
    tiles_.out_w = shape.out_w;
    tiles_.bias = args.bias;
    tiles_.activation = args.activation;
    tiles_.y_row = args.y_row;
    tiles_.y_column = args.y_column;
  }

  void Run(int panel, int part) {
    const ConvShape& shape = args_.shape;
    tiles_.tile_begin = tiling_.tiles.Begin(part);
    tiles_.tiles = tiling_.tiles.Tiles(part);
    tiles_.x = ElementAt(args_.x, args_.x_in_pairs, panel * tiles_.x_row * shape.in_h);
    tiles_.channels = shape.channels;
    tiles_.transformed = input_;
    tiles_.element = tiling_.input;
    if (whole_.kernels() != nullptr) {
      whole_.kernels()->input(tiles_, whole_.units());
      whole_.Run(tiles_.tiles, 0, shape.outputs);
    } else {
      from_.input(tiles_);
      Multiply();
    }
    tiles_.channels = shape.outputs;
    tiles_.transformed = output_;
    tiles_.element = tiling_.output;
    const int64_t at = panel * args_.y_panel;
    tiles_.y = ElementAt(args_.y, args_.y_in_pairs, at);
    tiles_.add = args_.add == nullptr ? nullptr : ElementAt(args_.add, args_.y_in_pairs, at);
    tiles_.argmax = args_.argmax == nullptr ? nullptr : args_.argmax + at;
    (args_.max_pool ? to_.pool : to_.output)(tiles_);
  }

 private:
  void Multiply() {
    product_.shape.in_w = product_.shape.out_w = tiles_.tiles;
    const int blocks = (args_.shape.outputs + args_.block - 1) / args_.block;
    for (int element = 0; element < tiling_.tiles.elements; ++element) {
      product_.x = input_ + element * tiling_.input;
      product_.weights = args_.weights + element * WinogradElementWeights(args_.shape.channels, args_.shape.outputs);
      product_.y = output_ + element * tiling_.output;
      kernels_.conv_forward(product_, {0, 1, 0, blocks});
    }
  }

  const ConvForwardArgs& args_;
  const Tiling& tiling_;
  const KernelTable& kernels_;
  const WinogradPanelKernels& from_;
  const WinogradPanelKernels& to_;
  float* const input_;   // [elements][tiles][channels][16]
  float* const output_;  // [elements][tiles][outputs][16]
  WinogradPanelArgs tiles_;
  ConvForwardArgs product_;
  WholeProducts whole_;
};

}  // namespace

bool PrefersWinogradConv2d(const ConvForwardArgs& args, const CpuDevice& device) {
  if (!TakesWinograd(args.shape, device) || (args.max_pool && (args.pool_h != 2 || args.pool_w != 2))) return false;
  return device.bf16 == nullptr || args.x_in_pairs;
}

int WinogradTilesAtATime(const ConvForwardArgs& args) { return Tiling(args).tiles.at_a_time; }

int WinogradRowsAtATime(const ConvForwardArgs& args) {
  const WinogradTiles tiles = Tiling(args).tiles;
  return tiles.at_a_time % tiles.width == 0 ? tiles.results * tiles.at_a_time / tiles.width : 0;
}

size_t WinogradWeightFloats(const ConvShape& shape) {
  return static_cast<size_t>(2 * ElementsOf(shape.kernel_h, WinogradResults(shape)) *
                             WinogradElementWeights(shape.channels, shape.outputs));
}

void RunWinogradPack(const PackArgs& args, CpuDevice& device) {
  const int elements = ElementsOf(args.kernel_h, args.winograd);
  const int64_t element_floats = WinogradElementWeights(args.in, args.out);
  WinogradWeightsArgs weights;
  weights.taps = args.kernel_h;
  weights.results = args.winograd;
  weights.weights = args.weights;
  weights.transformed = args.packed + elements * element_floats;
  weights.count = int64_t{args.in} * args.out;
  device.pool.Run(VectorsFor(weights.count), [&](int64_t begin, int64_t end, int) {
    WinogradWeightsArgs part = weights;
    part.begin = begin * kLanes;
    part.end = std::min(end * kLanes, part.count);
    WinogradKernels(device, device.bf16 != nullptr).weights(part);
  });
  if (MultipliesWhole(device, args.transposed ? args.out : args.in)) {
    device.pool.Run(elements, [&](int64_t begin, int64_t end, int) {
      WinogradWholeWeightsArgs one{
          .taps = weights.taps, .results = weights.results, .in = args.in, .out = args.out, .transposed = args.transposed};
      for (int64_t element = begin; element < end; ++element) {
        one.element = static_cast<int>(element);
        one.transformed = weights.transformed + element * weights.count;
        one.units = args.packed + element * element_floats;
        one.to = reinterpret_cast<uint16_t*>(one.units + WholeUnitFloats(args.transposed ? args.in : args.out));
        device.bf16->winograd_whole.weights(one);
      }
    });
    return;
  }
  device.pool.Run(elements, [&](int64_t begin, int64_t end, int) {
    PackArgs one = args;
    one.winograd = 0;
    one.kernel_h = one.kernel_w = 1;
    for (int64_t element = begin; element < end; ++element) {
      one.weights = weights.transformed + element * weights.count;
      one.packed = args.packed + element * element_floats;
      device.kernels.pack(one);
    }
  });
}

size_t WinogradScratchFloats(const ConvForwardArgs& args, int threads) {
  return static_cast<size_t>(Tiling(args).thread_floats() * threads);
}

void RunWinogradConvForward(const ConvForwardArgs& args, CpuDevice& device, const BehindRows* behind) {
  const Tiling tiling(args);
  const bool at_once = behind != nullptr && WinogradRowsAtATime(args) == args.rows_behind;
  device.pool.RunShared(int64_t{args.shape.panels} * tiling.tiles.parts, 1, [&](int64_t begin, int64_t end, int thread) {
    TilesOfImages tiles(args, tiling, args.scratch + thread * tiling.thread_floats(), device);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int panel = static_cast<int>(unit / tiling.tiles.parts);
      const int part = static_cast<int>(unit % tiling.tiles.parts);
      tiles.Run(panel, part);
      if (at_once) (*behind)(panel, part, thread);
    }
  });
  if (behind != nullptr && !at_once) CallForAllRows(*behind, args, device.pool);
}

}  // namespace trainyard::engine
