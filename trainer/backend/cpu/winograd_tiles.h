// What the users of Winograd's F(2x2, 3x3) on panels share: how transformed tiles lie.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/backend/cpu/layout.h"

namespace trainyard::engine {

constexpr int kWinogradElements = 16;  // of a tile of 4 x 4
constexpr int kWinogradChannels = 16;  // at least, of x and of y: with fewer the transforms cost more than they save

// The tiles of an image, and how many a thread transforms at a time.
struct WinogradTiles {
  int width = 0, count = 0;
  int at_a_time = 1, parts = 0;

  // Of an image of height x width results, where a tile takes `vectors` vectors for each element.
  WinogradTiles(int height, int image_width, int64_t vectors) : width((image_width + 1) / 2), count(width * ((height + 1) / 2)) {
    constexpr int64_t kVectors = 8 << 10;  // a part of the second cache
    constexpr int64_t kLeast = 4;          // packed weights, or sums, pass once for all of them
    const int64_t most = std::max(kLeast, kVectors / (kWinogradElements * vectors));
    parts = static_cast<int>((count + most - 1) / most);
    if (parts > 0) at_a_time = (count + parts - 1) / parts;
  }
  // Of a part.
  int Tiles(int part) const { return std::min(at_a_time, count - part * at_a_time); }
};

// Floats between elements of tiles of so many vectors: an odd number of vectors, so that the
// elements do not share few lines of the nearest cache.
constexpr int64_t WinogradElementFloats(int64_t vectors) { return (vectors | 1) * kLanes; }

}  // namespace trainyard::engine
