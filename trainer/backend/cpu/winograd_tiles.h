// What the users of Winograd's F(2x2, 3x3), F(4x4, 3x3) and F(2x2, 5x5) on panels share: the size
// of tiles, and how transformed tiles lie.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/layout.h"

namespace trainyard::engine {

constexpr int kWinogradChannels = 16;  // at least, of x and of y: with fewer the transforms cost more than they save

// Whether the transforms cost less than they save.
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

// The tiles of an image, and how many a thread transforms at a time.
struct WinogradTiles {
  int taps = 3, results = 2;  // to a side
  int elements = 0;           // of a tile
  int width = 0, count = 0;   // tiles of a row, and of the image
  int at_a_time = 1, parts = 0;

  // Of an image of height x width results, where a tile takes `vectors` vectors for each element.
  WinogradTiles(const ConvShape& shape, int height, int image_width, int64_t vectors)
      : taps(shape.kernel_h),
        results(WinogradResults(shape)),
        elements((results + taps - 1) * (results + taps - 1)),
        width((image_width + results - 1) / results),
        count(width * ((height + results - 1) / results)) {
    constexpr int64_t kVectors = 8 << 10;  // a part of the second cache
    constexpr int64_t kLeast = 4;          // packed weights, or sums, pass once for all of them
    const int64_t most = std::max(kLeast, kVectors / (elements * vectors));
    parts = static_cast<int>((count + most - 1) / most);
    if (parts > 0) at_a_time = (count + parts - 1) / parts;
  }
  // Of a part.
  int Tiles(int part) const { return std::min(at_a_time, count - part * at_a_time); }
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

// Floats between elements of tiles of so many vectors: an odd number of vectors, so that the
// elements do not share few lines of the nearest cache.
constexpr int64_t WinogradElementFloats(int64_t vectors) { return (vectors | 1) * kLanes; }

}  // namespace trainyard::engine
