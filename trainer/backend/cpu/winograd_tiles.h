// What the users of Winograd's F(2x2, 3x3), F(4x4, 3x3) and F(2x2, 5x5) on panels share: the size
// of tiles, and how transformed tiles lie.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/layout.h"

namespace trainyard::engine {

// At least, of x and of y: with fewer the transforms cost more than they save. The second: of 3x3
// windows where pairs of bfloat16 are multiplied at twice the rate.
constexpr int kWinogradChannels = 16;
constexpr int kNarrowWinogradChannels = 32;

// Whether the transforms cost less than they save, in float32.
inline bool HasWinogradShape(const ConvShape& shape) {
  const bool taps = shape.kernel_h == shape.kernel_w && (shape.kernel_h == 3 || shape.kernel_h == 5);
  return taps && shape.stride_h == 1 && shape.stride_w == 1 && shape.channels >= kWinogradChannels && shape.outputs >= kWinogradChannels &&
         shape.out_h >= 2 && shape.out_w >= 2;
}

// Whether tiles of 4 x 4 results of 3x3 windows cover an image of height x width results well: with
// 3/4 of the elements of tiles of 2 x 2 at most.
inline bool LargeTilesCoverWell(int64_t height, int64_t width) {
  const auto tiles = [&](int results) { return ((height + results - 1) / results) * ((width + results - 1) / results); };
  return 4 * 36 * tiles(4) <= 3 * 16 * tiles(2);
}

// Results to a side of a tile, for a shape that has the transforms.
inline int WinogradResults(const ConvShape& shape) { return shape.kernel_h == 3 && LargeTilesCoverWell(shape.out_h, shape.out_w) ? 4 : 2; }

// Whether a device computes such windows so. Where one product of pairs of bfloat16 does the work
// of two, tiles of 2 x 2 results of 3x3 windows save nothing, and those of 4 x 4 want more
// channels.
inline bool TakesWinograd(const ConvShape& shape, const CpuDevice& device) {
  if (!HasWinogradShape(shape)) return false;
  if (device.bf16 == nullptr) return true;
  if (device.bf16->winograd.input == nullptr) return false;
  return shape.kernel_h == 5 || (WinogradResults(shape) == 4 && std::min(shape.channels, shape.outputs) >= kNarrowWinogradChannels);
}

// Whether products over so many channels of pairs are made of whole numbers. With more channels the
// 31 bits of a sum leave too few for each weight (kernels/winograd_whole.h).
constexpr int kMostWholeChannels = 64;
inline bool MultipliesWhole(const CpuDevice& device, int channels) {
  return device.bf16 != nullptr && device.bf16->winograd_whole.product != nullptr && channels % 2 == 0 && channels <= kMostWholeChannels;
}

// The transforms of values that lie as f32, or as pairs of bfloat16.
inline const WinogradPanelKernels& WinogradKernels(const CpuDevice& device, bool in_pairs) {
  return in_pairs ? device.bf16->winograd : device.kernels.winograd_panels;
}

// Element `at` of values that lie so.
template <typename Float>
Float* ElementAt(Float* values, bool in_pairs, int64_t at) {
  return in_pairs ? values + at / 2 : values + at;  // pairs: even
}

// How tiles of an image are cut into parts, which a thread transforms at a time.
enum class WinogradParts {
  kEven,  // as even as they go
  kRows,  // whole rows of tiles, or the same parts of each row
};

// The tiles of an image, and how many a thread transforms at a time.
struct WinogradTiles {
  int taps = 3, results = 2;  // to a side
  int elements = 0;           // of a tile
  int width = 0, count = 0;   // tiles of a row, and of the image
  int run = 0;                // tiles that parts divide: rows of them
  int at_a_time = 1, parts_of_run = 0, parts = 0;

  // Of an image of height x width results, where a tile takes `vectors` vectors for each element.
  WinogradTiles(const ConvShape& shape, int height, int image_width, int64_t vectors, WinogradParts cut = WinogradParts::kEven)
      : taps(shape.kernel_h),
        results(WinogradResults(shape)),
        elements((results + taps - 1) * (results + taps - 1)),
        width((image_width + results - 1) / results),
        count(width * ((height + results - 1) / results)) {
    constexpr int64_t kVectors = 8 << 10;  // a part of the second cache
    constexpr int64_t kLeast = 4;          // packed weights, or sums, pass once for all of them
    if (count == 0) return;
    const auto most = static_cast<int>(std::min<int64_t>(count, std::max(kLeast, kVectors / (elements * vectors))));
    const auto even = [](int all, int at_most) {
      const int shares = (all + at_most - 1) / at_most;
      return (all + shares - 1) / shares;
    };
    const bool by_rows = cut == WinogradParts::kRows;
    run = !by_rows ? count : most < width ? width : width * even(count / width, most / width);
    at_a_time = by_rows && most >= width ? run : even(run, most);
    parts_of_run = (run + at_a_time - 1) / at_a_time;
    parts = (count + run - 1) / run * parts_of_run;
  }
  // The first tile of a part, and how many it has.
  int Begin(int part) const { return part / parts_of_run * run + part % parts_of_run * at_a_time; }
  int Tiles(int part) const {
    const int end = std::min(count, (part / parts_of_run + 1) * run);
    return std::min(at_a_time, end - Begin(part));
  }
};

// The transform of an image: all but the pointers, the padding, the range of tiles and their
// channels.
inline WinogradPanelArgs WinogradTransformOf(const WinogradTiles& tiles, int height, int width, int channels) {
  WinogradPanelArgs args;
  args.taps = tiles.taps;
  args.results = tiles.results;
  args.tiles_w = tiles.width;
  args.x_column = int64_t{channels} * kLanes;
  args.x_row = args.x_column * width;
  args.in_h = height;
  args.in_w = width;
  return args;
}

// That of x, with its padding.
inline WinogradPanelArgs WinogradInputOf(const ConvShape& shape, const WinogradTiles& tiles) {
  WinogradPanelArgs args = WinogradTransformOf(tiles, shape.in_h, shape.in_w, shape.channels);
  args.pad_top = shape.pad_top;
  args.pad_left = shape.pad_left;
  return args;
}

// The product of one element of all tiles, from `channels` to `outputs`: all but the pointers and
// the number of tiles.
inline ConvForwardArgs WinogradProductOf(int channels, int outputs, int block, int columns) {
  ConvForwardArgs args;
  args.shape.panels = 1;
  args.shape.channels = channels;
  args.shape.outputs = outputs;
  args.y_column = int64_t{outputs} * kLanes;
  args.block = block;
  args.columns = columns;
  return args;
}

// Floats of the packed weights of one element.
constexpr int64_t WinogradElementWeights(int64_t channels, int64_t outputs) { return PaddedFloats(channels * outputs); }

// Weights of one element as whole numbers lie where packed ones would: the units of the outputs,
// which take so many floats, then the outputs' rows.
constexpr int64_t WholeUnitFloats(int outputs) { return PaddedFloats(outputs); }

// The products of all elements in whole numbers, where MultipliesWhole: from `channels` to
// `outputs`.
class WholeProducts {
 public:
  // What lies `element` floats apart for each element of a tile.
  template <typename Float>
  struct Elements {
    Float* first;
    int64_t element;
  };

  // x [elements][tiles][channels / 2][16][2] of int16, y [elements][tiles][outputs][16] of f32.
  WholeProducts(const CpuDevice& device, int channels, int outputs, int elements, Elements<const float> x, const float* weights,
                Elements<float> y)
      : kernels_(MultipliesWhole(device, channels) ? &device.bf16->winograd_whole : nullptr),
        outputs_(outputs),
        elements_(elements),
        x_(x),
        weights_(weights),
        y_(y) {
    product_.pairs = channels / 2;
    product_.outer = product_.inner = 1;
    product_.a_row = channels;
    product_.b_group = int64_t{channels} * kLanes;
    product_.c_row = kLanes;
    product_.c_group = int64_t{outputs} * kLanes;
    product_.lane_units = units_;
  }
  WholeProducts(const WholeProducts&) = delete;
  WholeProducts& operator=(const WholeProducts&) = delete;

  // Null: products are of f32.
  const WinogradWholeKernels* kernels() const { return kernels_; }
  // Of x, for its transform to leave.
  float* units() { return units_; }
  // The outputs [first, first + rows) of `tiles` tiles.
  void Run(int tiles, int first, int rows) {
    product_.rows = rows;
    product_.groups = tiles;
    for (int element = 0; element < elements_; ++element) {
      const float* const weights = weights_ + element * WinogradElementWeights(product_.a_row, outputs_);
      product_.a = reinterpret_cast<const uint16_t*>(weights + WholeUnitFloats(outputs_)) + first * product_.a_row;
      product_.row_units = weights + first;
      product_.b = reinterpret_cast<const uint16_t*>(x_.first + element * x_.element);
      product_.c = y_.first + element * y_.element + int64_t{first} * kLanes;
      kernels_->product(product_);
    }
  }

 private:
  const WinogradWholeKernels* const kernels_;
  const int outputs_, elements_;
  const Elements<const float> x_;
  const float* const weights_;
  const Elements<float> y_;
  Bf16ProductArgs product_;
  alignas(64) float units_[kLanes];
};

// Floats between elements of tiles of so many vectors: an odd number of vectors, so that the
// elements do not share few lines of the nearest cache.
constexpr int64_t WinogradElementFloats(int64_t vectors) { return (vectors | 1) * kLanes; }

}  // namespace trainyard::engine
