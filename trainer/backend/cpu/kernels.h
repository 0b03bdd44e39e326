// The kernels of the cpu backend as plain functions over plain arguments, and the table through
// which they are called.
//
// Terms
//   panel    16 samples of the batch side by side, the lanes of a vector; [N/16][H][W][C][16] with N padded to a multiple of 16
//   vector   the 16 values of one channel of one pixel of one panel: 64 bytes, always aligned
//   column   one vector that a block of conv_forward adds up at a time: a pixel, or the same pixel of several panels
//   block    the outputs x columns (conv_forward) or inputs x outputs (conv_weight_gradient) that a kernel holds in registers
//
// Every table is made by compiling kernels/*.cc for one instruction set. Kernels allocate nothing,
// keep no state and may run on any thread. The order in which a kernel adds is a function of the
// shape alone: not of threads, and not of the block.
#pragma once

#include <stdint.h>

#include "trainer/backend/cpu/batch_norm_args.h"
#include "trainer/backend/cpu/bf16_kernels.h"
#include "trainer/backend/cpu/lanes.h"
#include "trainer/backend/cpu/winograd_args.h"
#include "trainer/graph/activation.h"
#include "trainer/graph/cell.h"

namespace trainyard::engine {

// The geometry of a convolution. A dense layer is a 1x1 kernel over one panel of one row, whose
// pixels are the panels of the batch.
struct ConvShape {
  int panels = 0;
  int in_h = 1, in_w = 1, channels = 0;
  int out_h = 1, out_w = 1, outputs = 0;
  int kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  int pad_top = 0, pad_left = 0;  // for conv_forward may be negative: the kernel starts that far inside
};

// y[o] = act(max_pool(bias[o] + sum over kernel rows, columns and channels of x * w + add)). The
// input gradient is the same of dy, with flipped, transposed weights.
struct ConvForwardArgs {
  ConvShape shape;                 // out_h and out_w are before pooling
  const float* x = nullptr;        // panels [.][in_h][in_w][channels][16]
  const float* weights = nullptr;  // packed: [outputs/block][kernel_h][kernel_w][channels][block]
  bool packed = true;              // false, for 1x1 only: weights are [outputs][channels] as they are
  const float* bias = nullptr;     // [outputs] or null
  float* y = nullptr;
  const float* add = nullptr;  // laid out as y, in pairs where y is; null: nothing; not with a pool
  uint8_t* argmax = nullptr;   // with max pooling: the winner's position in its window, laid out as y; may be null
  int64_t y_panel = 0;         // strides of y in floats
  int64_t y_row = 0;
  int64_t y_column = 0;
  int block = 1;    // outputs held in registers at a time, as packed
  int columns = 1;  // columns held in registers at a time
  int group = 1;    // panels walked together, so that border pixels have columns too
  // Products of bfloat16 only: x or y are pairs of bf16 (bf16_kernels.h), strides count elements.
  bool x_in_pairs = false;
  bool y_in_pairs = false;  // not with a pool
  Activation activation = Activation::kIdentity;
  bool max_pool = false;
  int pool_h = 1, pool_w = 1;  // the window of the pool and its stride
  float* scratch = nullptr;    // with pooling: group * pool_h * out_w * outputs * 16 floats, a thread's own
  int rows_behind = 0;         // rows of y that BehindRows is called for; 0: none
  // Not 0: by winograd_conv2d.h in tiles of so many results to a side. block and columns are those
  // of its products.
  int winograd = 0;
};
// The work of conv_forward is cut into units, one (group of panels, row of y) each, and every unit
// into the blocks of outputs.
struct ConvForwardRange {
  int unit_begin = 0, unit_end = 0;
  int block_begin = 0, block_end = 0;  // all blocks when there is a pool
};

// dw[kernel row][kernel column][c][o] = sum over panels, pixels and lanes of x[c] * dy[o], and
// db[o] = that of dy[o], for o in [output_begin, output_end). Overwrites.
struct ConvWeightGradientArgs {
  ConvShape shape;
  const float* x = nullptr;
  const float* dy = nullptr;  // panels [.][out_h][out_w][outputs][16]
  float* dw = nullptr;        // HWIO
  float* db = nullptr;        // may be null
  int output_begin = 0, output_end = 0;
  bool accumulate = false;  // to what dw and db hold
};

// Packs kernels [kernel_h][kernel_w][in][out] for conv_forward. Forward: outputs = out. Transposed
// (the input gradient): outputs = in, taps flipped, and only the taps first + k * step (one phase
// of a strided convolution).
struct PackArgs {
  const float* weights = nullptr;
  float* packed = nullptr;
  int kernel_h = 1, kernel_w = 1, in = 0, out = 0;
  int block = 1;
  int winograd = 0;  // not 0: for winograd_conv2d.h in tiles of so many results to a side
  bool transposed = false;
  int first_h = 0, first_w = 0, step_h = 1, step_w = 1;
  int block_begin = 0, block_end = INT32_MAX;  // of outputs, which a call packs
};

// Memory that the caller reads next: the first `floats` of rows, row_stride apart. A product
// fetches it into the caches while it multiplies.
struct FetchAhead {
  const float* from = nullptr;
  int64_t row_stride = 0;
  int rows = 0, floats = 0;
};

// c[row][column] = bias[column] (or c[row][column]) + sum over k of a * b. a is read one value at a
// time, b in whole vectors along its columns. The path where outputs are lanes: weight gradients of
// dense layers (k counts samples) and batches of a few samples.
struct ProductArgs {
  // k runs in chunks, so that it can count the samples of one pixel or panel after another's.
  int rows = 0, columns = 0, k = 0, chunk = kLanes;
  const float* a = nullptr;  // a[row][k] at row * a_row + (k / chunk) * a_chunk + (k % chunk) * a_k
  int64_t a_row = 0, a_k = 0, a_chunk = 0;
  const float* b = nullptr;  // b[k] at (k / chunk) * b_chunk + (k % chunk) * b_k
  int64_t b_k = 0, b_chunk = 0;
  const float* bias = nullptr;  // [columns] or null
  bool accumulate = false;      // start from c, without a bias
  float* c = nullptr;           // [rows][c_row]
  int64_t c_row = 0;
  bool fetch = false;  // c lies in no near cache: fetch its lines, and those of `ahead`, while multiplying
  FetchAhead ahead[2];
};

inline constexpr int kMostRowsVectors = 4;

// y[row][pixel][o] = relu(add + start + sum over kernel rows r and k of x * weights), in rows: the
// outputs o are lanes. The start is the bias, or y itself. One chain of multiply-adds per result,
// in the order kernel row, kernel column, channel: the order of conv_forward.
struct ConvRowsArgs {
  int rows = 1, pixels = 0, columns = 0;  // of y; at most kMostRowsVectors vectors of columns
  int kernel_rows = 1, run = 0;           // run: kernel columns times channels, which lie one after the other in x
  const float* x = nullptr;               // at row * x_row + pixel * x_pixel + r * x_kernel_row + k
  int64_t x_row = 0, x_pixel = 0, x_kernel_row = 0;
  const float* weights = nullptr;  // [kernel_rows][weights_row / width][width], width: columns in whole vectors
  int64_t weights_row = 0;
  int64_t weights_panel = 0;  // of one pixel: not 0 where each vector of columns is a panel of its own, so many floats behind the last one
  const float* bias = nullptr;  // [width], 64-byte aligned; not with accumulate
  bool accumulate = false;
  const float* add = nullptr;  // laid out as y; null: nothing
  bool relu = false;
  float* y = nullptr;
  int64_t y_row = 0, y_pixel = 0;
  const float* next = nullptr;  // weights of the next call, which come nearer meanwhile; null: none
  int64_t next_floats = 0;
};

// Winograd's F(2x2, 3x3) or F(4x4, 3x3) of one image's part in rows, for tiles of tile x tile
// pixels of y. Input: tiles of (tile + 2) x (tile + 2) pixels, `tile` apart, become
// transformed [(tile + 2)^2][tiles][channels], whose elements lie `element` floats apart. Output:
// transformed becomes y [out_h][out_w][channels] = relu(add + bias + A^T m A). Channels are whole
// vectors.
struct WinogradArgs {
  int tile = 2;
  int tiles_h = 0, tiles_w = 0, channels = 0;
  const float* x = nullptr;
  int64_t x_row = 0;
  float* transformed = nullptr;
  int64_t element = 0;
  int out_h = 0, out_w = 0;
  const float* bias = nullptr;
  const float* add = nullptr;  // laid out as y; null: nothing
  bool relu = false;
  float* y = nullptr;
};

// The output gradients of one tile, results x results pixels of `rows` rows of `vectors` vectors,
// become A dy A^T [tile^2][rows][vectors * 16], whose elements lie `element` floats apart.
struct WinogradGradientArgs {
  int taps = 3, results = 2;
  int rows = 0, vectors = 0;
  const float* from = nullptr;
  int64_t from_pixel = 0, from_row = 0;
  float* to = nullptr;
  int64_t element = 0;
};

// dw = G^T p G of one channel and `columns` outputs, where p is the sum of `parts` parts, from the
// first to the last.
struct WinogradWeightGradientArgs {
  int taps = 3, results = 2;
  const float* sums = nullptr;  // [parts][tile^2], sums_element floats apart; whole vectors of columns
  int64_t sums_element = 0;
  int parts = 1;
  float* dw = nullptr;  // [taps^2], dw_tap floats apart
  int64_t dw_tap = 0;
  int columns = 0;
};

// Part of a product's right side as a panel: to [rows][width], width a multiple of 16, zeros behind
// `columns`. from [rows][from_row], or, transposed, [columns][from_row]. With `sums` [width],
// 64-byte aligned, every row is added to them (not transposed).
struct PackRowsArgs {
  const float* from = nullptr;
  float* to = nullptr;
  float* sums = nullptr;
  const float* sum_weights = nullptr;  // [rows], what each row is multiplied by for the sums; null: ones
  int64_t from_row = 0;
  int rows = 0, columns = 0, width = 0;
  bool transposed = false;
};

// One step of a recurrent layer over `rows` samples, after the product q [rows][gates * units] of h
// before it (ops/recurrent.h). Strides count elements; h and c before the step may be null: zeros.
struct RecurrentStepArgs {
  Cell cell = Cell::kLstm;
  Activation activation = Activation::kTanh;  // simple RNN
  int rows = 0, units = 0;
  const float* z = nullptr;
  int64_t z_row = 0;
  const float* q = nullptr;
  const float* z_bias = nullptr;  // GRU: [3 * units] or null
  const float* h = nullptr;       // GRU
  int64_t h_row = 0;
  const float* c = nullptr;  // LSTM
  int64_t c_row = 0;
  float* y = nullptr;
  int64_t y_row = 0;
  void* gates = nullptr;  // f32, or int16_t with Bf16Kernels::lstm_step; null: not kept
  int64_t gates_row = 0;
  float* cells = nullptr;  // LSTM
  int64_t cells_row = 0;
};

// The same step back. dh [rows][units] holds what flows back from the step after; a GRU leaves
// there what does not pass the product.
struct RecurrentStepGradientArgs {
  Cell cell = Cell::kLstm;
  Activation activation = Activation::kTanh;
  int rows = 0, units = 0;
  const float* dy = nullptr;  // null: zeros
  int64_t dy_row = 0;
  float* dh = nullptr;
  float* dc = nullptr;  // LSTM: [rows][units], in and out
  const float* y = nullptr;
  int64_t y_row = 0;
  const void* gates = nullptr;  // as the step kept them
  int64_t gates_row = 0;
  const float* cells = nullptr;
  int64_t cells_row = 0;
  const float* h = nullptr;  // before the step: GRU
  int64_t h_row = 0;
  const float* c = nullptr;  // before the step: LSTM
  int64_t c_row = 0;
  float* dz = nullptr;
  int64_t dz_row = 0;
  float* dq = nullptr;  // GRU: what flows into the product of h, laid out as dz
};

// Rows [begin, end) of [rows][classes].
struct RowLossArgs {
  const float* x = nullptr;  // logits or probabilities
  const int32_t* labels = nullptr;
  float* y = nullptr;  // probabilities (may be null) or the gradient; may be x
  float scale = 1.0f;  // of the gradient
  int classes = 0;
  int64_t begin = 0, end = 0;
  double* losses = nullptr;    // [rows], of every row of the range
  uint8_t* correct = nullptr;  // [rows], likewise: 1 where the label is the first of the highest
};

// Part of the cross-entropy of logits that come panel by panel. x holds `columns` classes from
// `first` on of rows [0, rows).
struct ExpRowsArgs {
  const float* x = nullptr;
  int64_t x_row = 0;
  int rows = 0, columns = 0;
  int32_t first = 0;
  const int32_t* labels = nullptr;  // [rows]
  void* y = nullptr;                // e^x at row * y_row + column, f32 or with Bf16Kernels::exp_rows bf16; null: not stored
  int64_t y_row = 0;
  float* sums = nullptr;     // [rows], of e^x
  float* wanted = nullptr;   // [rows]: x at the label, where that is one of the classes
  float* highest = nullptr;  // [rows] or null: the highest x
  uint8_t* leads = nullptr;  // with `highest`, like `wanted`: 1 where the label is the first of the highest
};

// The end of it, for rows [begin, end), 16 of them at a time: begin is a multiple of 16.
struct ExpRowsEndArgs {
  int64_t begin = 0, end = 0;
  const float* sums = nullptr;  // [panels][sums_row], sums_row a multiple of 16
  int64_t sums_row = 0;
  int panels = 0;
  const float* wanted = nullptr;
  const int32_t* labels = nullptr;
  double count = 1.0;        // of all labels
  double* losses = nullptr;  // [rows]
  void* y = nullptr;         // as above: that of the label becomes e^wanted - sum; null: not stored
  int64_t y_row = 0;
  float* factors = nullptr;   // [rows] or null: 1 / (sum * count)
  uint8_t* beyond = nullptr;  // [rows]: 1 where e^x leaves the range in which this is exact: nothing else is set
};

// A window sliding over images; rows and columns of padding never win and never count.
struct PoolArgs {
  int panels = 0;
  int in_h = 1, in_w = 1, out_h = 1, out_w = 1, channels = 0;
  int size_h = 1, size_w = 1, stride_h = 1, stride_w = 1, pad_top = 0, pad_left = 0;
  const float* x = nullptr;                       // forward: the images; gradient: dy
  float* y = nullptr;                             // forward: y; gradient: dx
  uint8_t* argmax = nullptr;                      // max: each winner's place in its window, laid out as y; may be null
  Activation activation = Activation::kIdentity;  // max: done after the pool
  const uint8_t* winners = nullptr;               // gradient of max: argmax
  const float* activated = nullptr;               // gradient of max: y after the activation, if there is one
  int channel_begin = 0, channel_end = 0;         // gradient of max: the channels that it makes
};

// `pixels` groups of `classes` vectors. Only the lanes of samples below `samples` count in a panel:
// pixels_per_panel pixels each.
struct LossArgs {
  const float* x = nullptr;         // logits, probabilities or predictions
  const int32_t* labels = nullptr;  // [pixels][16]
  const float* target = nullptr;    // mean squared error
  float* y = nullptr;               // probabilities (may be null) or the gradient
  float scale = 1.0f;               // of the gradient
  int panels = 0, pixels_per_panel = 1, classes = 0, samples = 0;
};

// samples x features, row-major, to and from panels; lanes beyond the samples are written as zero.
struct ConvertArgs {
  const void* from = nullptr;
  void* to = nullptr;
  int samples = 0;
  int64_t features = 0;
  float scale = 1.0f;  // of u8
};

// Element f of sample n becomes 0 when word f % 4 of Philox({f / 4, n, salt}, key) is below
// `threshold`, else x * scale (ops/philox.h).
struct DropoutArgs {
  const float* x = nullptr;
  float* y = nullptr;
  int panel_begin = 0, panel_end = 0;
  int64_t features = 0;
  uint32_t key[2] = {}, salt[2] = {};
  uint32_t threshold = 0;
  float scale = 1.0f;
};

struct KernelTable {
  const char* isa;                        // "baseline", "avx2", "avx512": how the kernels were compiled
  int max_rows_vectors;                   // of conv_rows: the most vectors of columns in a panel,
  int rows_pixels[kMostRowsVectors + 1];  // and by their number the pixels that are done at a time
  int max_sums;                           // of conv_forward: the most accumulators (block * columns) that registers hold
  int max_columns;
  int max_product_steps;  // of product: the most k of a panel of b that is packed for it

  // Products.
  void (*conv_forward)(const ConvForwardArgs&, const ConvForwardRange&);
  void (*conv_weight_gradient)(const ConvWeightGradientArgs&);
  int (*conv_weight_gradient_block)(const ConvShape&);  // outputs that it holds at a time
  void (*pack)(const PackArgs&);
  void (*product)(const ProductArgs&);
  void (*conv_rows)(const ConvRowsArgs&);
  void (*winograd_input)(const WinogradArgs&);
  void (*winograd_output)(const WinogradArgs&);
  WinogradPanelKernels winograd_panels;
  void (*winograd_panel_input_gradient)(const WinogradPanelArgs&);
  void (*winograd_output_gradient)(const WinogradGradientArgs&);
  void (*winograd_weight_gradient)(const WinogradWeightGradientArgs&);
  // Element by element, over whole vectors. y may be one of the inputs.
  void (*activate)(const float* x, float* y, int64_t vectors, Activation activation);
  void (*activate_gradient)(const float* dy, const float* y, float* dx, int64_t vectors, Activation activation);
  void (*add)(const float* const* terms, int count, float* y, int64_t begin,
              int64_t end);  // vectors [begin, end), from the first term to the last
  void (*bias)(const float* x, const float* bias, float* y, int64_t pixels, int channels);
  void (*dropout)(const DropoutArgs&);
  // db[c] = the sum over pixels and lanes, for c in [begin, end).
  void (*bias_gradient)(const float* dy, float* db, int64_t pixels, int channels, int begin, int end);
  // Windows, for panels [begin, end).
  void (*max_pool)(const PoolArgs&, int begin, int end);
  void (*max_pool_gradient)(const PoolArgs&, int begin, int end);
  void (*average_pool)(const PoolArgs&, int begin, int end);
  void (*average_pool_gradient)(const PoolArgs&, int begin, int end);
  BatchNormKernels batch_norm;
  double (*sum_of_squares)(const float* x, int64_t elements);
  // Losses. The sums are over all samples and pixels, not yet divided.
  void (*softmax)(const float* x, float* y, int64_t pixels, int classes);
  void (*softmax_gradient)(const float* dy, const float* y, float* dx, int64_t pixels, int classes);
  double (*cross_entropy)(const LossArgs&);
  void (*cross_entropy_gradient)(const LossArgs&);  // x: probabilities
  int64_t (*correct_count)(const LossArgs&);
  double (*squared_error)(const LossArgs&);
  void (*squared_error_gradient)(const LossArgs&);  // scale * (x - target)
  // Layouts.
  void (*to_panels_f32)(const ConvertArgs&);  // also any other element of 4 bytes
  void (*to_panels_u8)(const ConvertArgs&);   // u8 -> f32 * scale
  void (*from_panels_f32)(const ConvertArgs&);
  void (*from_panels_u8)(const ConvertArgs&);
  // [pixels][channels][16] -> [pixels * 16][stride]; columns from `channels` to `stride` become
  // zero. stride is a multiple of 16.
  void (*panels_to_rows)(const float* x, float* rows, int64_t pixels, int channels, int64_t stride);
  // Rows.
  void (*pack_rows)(const PackRowsArgs&);
  void (*dropout_rows)(const DropoutArgs&);                    // samples for panels
  void (*max_pool_rows)(const PoolArgs&, int begin, int end);  // likewise; no argmax
  void (*average_pool_rows)(const PoolArgs&, int begin, int end);
  void (*scale_rows)(const BatchNormArgs&);  // y = scale * x + shift, with relu at least 0
  void (*recurrent_step)(const RecurrentStepArgs&);
  void (*recurrent_step_gradient)(const RecurrentStepGradientArgs&);
  void (*softmax_rows)(const RowLossArgs&);
  void (*cross_entropy_rows)(const RowLossArgs&);
  void (*cross_entropy_gradient_rows)(const RowLossArgs&);  // x: probabilities
  void (*correct_rows)(const RowLossArgs&);
  void (*exp_rows)(const ExpRowsArgs&);
  void (*exp_rows_end)(const ExpRowsEndArgs&);
  Bf16Kernels bf16;  // bfloat16 without instructions of its own: the operands of a product are widened to f32
  // `rounds` rounds of independent multiply-adds, which the peak is measured with. Returns the
  // floating-point operations done.
  double (*multiply_adds)(int64_t rounds, float* sink);
};

}  // namespace trainyard::engine
