// Products whose operands are rounded to bfloat16, and work on values that lie in memory as
// bfloat16, as plain functions over plain arguments.
//
// Terms
//   pair   two neighbours along the sum (k): the unit that processors multiply bf16 in
//   left   operand a, [m][k] with k in a row: 16 rows of up to 16 pairs are one tile
//   right  operand b, [k / 2][16 lanes][2]: a pair of k for each of 16 lanes is one vector of 64 bytes
//   group  the 16 lanes of a right operand: samples of a panel, or columns of a matrix
//   step   up to 16 pairs that a product takes at a time, a tile of each operand
//   pairs  a panel of bf16, [H][W][C / 2][16 samples][2 channels], C even: a pixel is C / 2 pairs
//          of a right operand
//
// An operand is rounded to the nearest bfloat16, to even where two are as near; a NaN stays one.
// Sums are f32. Where and in which order they are rounded depends on the instruction set and on the
// shape, never on threads.
#pragma once

#include <stdint.h>

#include "trainer/backend/cpu/batch_norm_args.h"
#include "trainer/backend/cpu/winograd_args.h"
#include "trainer/graph/activation.h"

namespace trainyard::engine {

struct DropoutArgs;  // kernels.h
struct ExpRowsArgs;
struct ExpRowsEndArgs;
struct PoolArgs;
struct RecurrentStepArgs;
struct RecurrentStepGradientArgs;

inline constexpr int kMostTileRows = 16;
inline constexpr int kMostTilePairs = 16;
inline constexpr int64_t kGroupPair = 32;  // bf16 elements of one pair of a group

// A matrix of f32 or bf16 that becomes an operand. `k` counts along the sum, `width` across it.
struct Bf16PackArgs {
  const float* from = nullptr;
  const uint16_t* from_rounded = nullptr;  // pack_right_rounded: the matrix of bf16
  int64_t from_row = 0;                    // elements between its rows; what lies in a row is dense
  int k = 0, width = 0;
  uint16_t* to = nullptr;
  int64_t to_row = 0;       // left: elements between the rows of m
  int64_t from_chunk = 16;  // where k runs along rows: floats between one 16 of it and the next
  int64_t to_group = 0;     // pack_right, of more than 16 lanes: elements between groups
  // May be null. pack_right: every k is added to these, one for each lane of all groups.
  // pack_right_rows: to 16 for each lane, aligned to 64 bytes, every 16 of k.
  float* sums = nullptr;
  const float* sum_weights = nullptr;  // pack_right: [k], what a k counts in the sums; null: ones
};

// c[m][group] = start + the sum over steps of a's tile times b's. Elements of a and b are bf16, of
// c and start f32; strides count elements.
struct Bf16ProductArgs {
  int rows = 0;   // of c
  int block = 1;  // rows of a tile: as begin() was told
  int pairs = 1;  // of a step: likewise
  int groups = 1;
  int last_lanes = 16;       // of the last group that belong to c
  int outer = 0, inner = 0;  // steps
  const uint16_t* a = nullptr;
  int64_t a_row = 0, a_outer = 0, a_inner = 0;  // rows up to a multiple of `block` can be read
  const uint16_t* b = nullptr;
  int64_t b_group = 0, b_outer = 0, b_inner = 0;  // pairs follow each other
  float* c = nullptr;
  int64_t c_row = 0, c_group = 0;
  const float* start = nullptr;  // null: zeros; may be c
  int64_t start_row = 0, start_group = 0;
  // product_to_pairs: `rows`, even, are channels, and a group is a pixel, c_group elements behind
  // the one before it. `pairs_to` takes the place of c. `add`, null or a value that lies alike, is
  // added.
  uint16_t* pairs_to = nullptr;
  const uint16_t* add = nullptr;
  bool relu = false;  // of what is stored
  // WinogradWholeKernels::product only: of the 16 lanes, and of each row.
  const float* lane_units = nullptr;
  const float* row_units = nullptr;
};

// Winograd's tiles of pairs as whole numbers: `transformed` is [tile^2][tiles][channels / 2][16][2]
// of int16. `units` [16] is what 1 counts in each lane: NaN where one of its values is not finite.
struct WinogradWholeKernels {
  void (*input)(const WinogradPanelArgs&, float* units);
  void (*output_gradient)(const WinogradPanelArgs&, float* units);
  void (*weights)(const WinogradWholeWeightsArgs&);
  void (*product)(const Bf16ProductArgs&);  // a and b are int16, c = lane_units * row_units * the sum
};

// One way to make operands and to multiply them.
struct Bf16Kernels {
  // Left operands: to[m * to_row + k], of from[m][k] (rows) or from[k][m] (columns). Nothing is
  // written behind k. Right ones: to[group][k / 2][lane][k % 2], of from[k][lane] or, for one
  // group, from[lane][k] (rows). Lanes behind `width` become zeros. So does what lies behind k up
  // to a pair, or up to 16 pairs (rows).
  void (*pack_left_rows)(const Bf16PackArgs&);
  void (*pack_left_columns)(const Bf16PackArgs&);
  void (*pack_right)(const Bf16PackArgs&);
  void (*pack_right_rounded)(const Bf16PackArgs&);
  void (*pack_right_rows)(const Bf16PackArgs&);
  // Samples along the sum: `vectors` (even) vectors of a panel in pairs, and those of the other one
  // `other` elements behind it, become rows of 32 samples, one for each channel of each pixel.
  // Without another (other = 0) a row holds the first twice.
  void (*turn_left)(const uint16_t* from, int64_t other, int64_t vectors, uint16_t* to);
  // The outputs of one pixel likewise as right operand: [outputs / 16][16 pairs of samples][16][2].
  // Without another panel its samples are zeros. To `sums`, null or [outputs][16], both are added.
  void (*turn_right)(const uint16_t* from, int64_t other, int outputs, float* sums, uint16_t* to);
  // Values in pairs, `vectors` (even) vectors of 16: from and to f32, and element by element. The
  // terms, inputs and outputs of an op may share memory.
  void (*to_pairs)(const float* x, uint16_t* y, int64_t vectors);
  void (*from_pairs)(const uint16_t* x, float* y, int64_t vectors);
  void (*sum_to_pairs)(const float* x, const uint16_t* add, uint16_t* y, int64_t vectors, Activation activation);  // act(x + add)
  void (*add)(const uint16_t* const* terms, int count, uint16_t* y, int64_t begin, int64_t end);  // vectors [begin, end), even
  void (*activate)(const uint16_t* x, uint16_t* y, int64_t vectors, Activation activation);
  void (*activate_gradient)(const uint16_t* dy, const uint16_t* y, uint16_t* dx, int64_t vectors, Activation activation);
  // Panels of an even number of features.
  void (*dropout)(const DropoutArgs&);
  // Of windows that tile the image from its corner: x, activated and y are pairs.
  void (*max_pool_gradient)(const PoolArgs&, int begin, int end);
  BatchNormKernels batch_norm;
  // Null where products of pairs are faster than those of f32 by more than Winograd's saves.
  WinogradPanelKernels winograd;
  WinogradWholeKernels winograd_whole;  // null where whole numbers are not multiplied faster than f32
  void (*pairs_to_rows)(const uint16_t* x, float* rows, int64_t pixels, int channels, int64_t stride);  // as panels_to_rows of KernelTable
  // As those of KernelTable, but y is bf16.
  void (*exp_rows)(const ExpRowsArgs&);
  void (*exp_rows_end)(const ExpRowsEndArgs&);
  // As recurrent_step of KernelTable and its gradient, of an LSTM whose gates are int16_t:
  // fractions of 32767. They lie from -1 to 1, where these are a hundred times as exact as bf16.
  void (*lstm_step)(const RecurrentStepArgs&);
  void (*lstm_step_gradient)(const RecurrentStepGradientArgs&);
  // Between begin and end, on one thread, only products of that block and of those pairs may run.
  // Null where a product needs no preparation.
  void (*begin)(int block, int pairs);
  void (*end)();
  void (*product)(const Bf16ProductArgs&);
  // The same, stored as pairs of channels. Null where sums do not lie in vectors.
  void (*product_to_pairs)(const Bf16ProductArgs&);
};

}  // namespace trainyard::engine
