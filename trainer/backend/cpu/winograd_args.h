// What Winograd's transforms of panels take, those of f32 and those of bfloat16.
#pragma once

#include <stdint.h>

#include "trainer/graph/activation.h"

namespace trainyard::engine {

// Winograd's F(2x2, 3x3), F(4x4, 3x3) or F(2x2, 5x5) of one panel: windows of taps x taps, tiles of
// results x results of them, which read tile x tile pixels for tile = results + taps - 1 and have
// tile^2 elements. `tiles` tiles from `tile_begin` on, counted along rows of tiles_w. Input:
// x [in_h][in_w][channels][16], strides in elements, becomes
// transformed [tile^2][tiles][channels][16], whose elements lie `element` floats apart. Output:
// transformed becomes y [out_h][out_w][channels][16] = act(bias + A^T m A + add), or the maxima of
// each tile's squares of 2 x 2 with the winners' places. Output gradient: dy, as x, becomes
// transformed, A dy A^T. Input gradient: B m B^T is added to dx, as y, where an earlier tile has
// left something, else stored. m has tile_channels channels, of which `channels` are taken.
struct WinogradPanelArgs {
  int taps = 3, results = 2;
  int tile_begin = 0, tiles = 0, tiles_w = 1, channels = 0;
  int tile_channels = 0;  // of the input gradient
  float* transformed = nullptr;
  int64_t element = 0;
  const void* x = nullptr;  // f32, or pairs of bf16
  int64_t x_row = 0, x_column = 0;
  int in_h = 0, in_w = 0, pad_top = 0, pad_left = 0;
  int out_h = 0, out_w = 0;     // before the pool
  const float* bias = nullptr;  // [channels] or null
  Activation activation = Activation::kIdentity;
  void* y = nullptr;  // likewise; of the input gradient f32
  int64_t y_row = 0, y_column = 0;
  const void* add = nullptr;  // laid out as y; null: nothing; not with a pool
  uint8_t* argmax = nullptr;  // laid out as y; may be null
};

// G g G^T: weights [taps^2][count] to transformed [tile^2][count], of those in [begin, end) of
// count. begin is a vector's first.
struct WinogradWeightsArgs {
  int taps = 3, results = 2;
  const float* weights = nullptr;
  float* transformed = nullptr;
  int64_t count = 0;
  int64_t begin = 0, end = 0;
};

// Transformed weights of one element as whole numbers: transformed [in][out] to rows of an output's
// channels, and the unit of each. Transposed: outputs are `in`, channels `out`.
struct WinogradWholeWeightsArgs {
  int taps = 3, results = 2;
  int element = 0;
  const float* transformed = nullptr;
  int in = 0, out = 0;
  bool transposed = false;
  uint16_t* to = nullptr;  // int16
  float* units = nullptr;
};

// Transformed values are f32. `weights` takes f32; those of bfloat16 round them first.
struct WinogradPanelKernels {
  void (*input)(const WinogradPanelArgs&);
  void (*output)(const WinogradPanelArgs&);
  void (*pool)(const WinogradPanelArgs&);
  void (*output_gradient)(const WinogradPanelArgs&);
  void (*weights)(const WinogradWeightsArgs&);
};

}  // namespace trainyard::engine
