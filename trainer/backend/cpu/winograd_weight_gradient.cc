#include "trainer/backend/cpu/winograd_weight_gradient.h"

#include <algorithm>

#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/panel_parts.h"
#include "trainer/backend/cpu/winograd_tiles.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kNearFloats = 128 << 10;  // sums of more lie in no near cache when they are added to again

struct Plan {
  WinogradTiles tiles;
  PanelParts parts;       // each with sums of its own
  int64_t row;            // floats of a sample's transformed outputs
  int64_t turned_row;     // of its turned ones: an odd number of vectors, so that rows do not share few lines of the nearest cache
  int64_t input, output;  // floats between elements
  int64_t sums;           // of one part, in whole vectors of outputs

  explicit Plan(const ConvShape& shape)
      : tiles(shape, shape.out_h, shape.out_w, shape.channels + PaddedFloats(shape.outputs)),
        parts(shape.panels),
        row(PaddedFloats(shape.outputs)),
        turned_row((VectorsFor(shape.outputs) | 1) * kLanes),
        input(WinogradElementFloats(int64_t{tiles.at_a_time} * shape.channels)),
        output(WinogradElementFloats(int64_t{tiles.at_a_time} * row)),
        sums(tiles.elements * shape.channels * row) {}

  int64_t turned() const { return int64_t{tiles.results} * tiles.results * kLanes * turned_row; }
  int64_t thread_floats() const { return turned() + tiles.elements * (input + output); }
};

// Adds the sum of `rows` rows to sums of as many floats as each has, whole vectors.
void AddRows(const float* from, int64_t rows, int64_t row, float* sums) {
  for (int64_t first = 0; first < row; first += kLanes) {
    float sum[kLanes] = {};
    for (int64_t r = 0; r < rows; ++r) {
      for (int i = 0; i < kLanes; ++i) sum[i] += from[r * row + first + i];
    }
    for (int i = 0; i < kLanes; ++i) sums[first + i] += sum[i];
  }
}

// One thread's sums: the channels [begin, end) over a part of the panels.
class PartOfSums {
 public:
  PartOfSums(const ConvShape& shape, const Plan& plan, bool in_pairs, float* sums, float* scratch, int begin, int end,
             const CpuDevice& device)
      : shape_(shape),
        plan_(plan),
        in_pairs_(in_pairs),
        device_(device),
        turned_(scratch),
        input_(scratch + plan.turned()),
        output_(input_ + plan.tiles.elements * plan.input),
        sums_(sums + begin * plan.row),
        begin_(begin),
        tiles_(WinogradInputOf(shape, plan.tiles)) {
    tiles_.channels = end - begin;
    tiles_.transformed = input_;
    tiles_.element = plan.input;
    gradient_.taps = shape.kernel_h;
    gradient_.results = plan.tiles.results;
    gradient_.vectors = static_cast<int>(plan.row / kLanes);
    gradient_.from = turned_;
    gradient_.from_pixel = kLanes * plan.turned_row;
    gradient_.from_row = plan.turned_row;
    gradient_.element = plan.output;
    product_.rows = end - begin;
    product_.columns = static_cast<int>(plan.row);
    product_.a_row = kLanes;
    product_.a_k = 1;
    product_.a_chunk = int64_t{product_.rows} * kLanes;
    product_.b_k = plan.row;
    product_.c_row = plan.row;
    product_.fetch = plan.sums > kNearFloats;
  }

  // x and dy of a panel, of which `samples` lanes count. To bias_sums [row], if any, all dy are
  // added.
  void Add(const float* x, const float* dy, int samples, float* bias_sums) {
    for (int part = 0; part < plan_.tiles.parts; ++part) {
      tiles_.tile_begin = plan_.tiles.Begin(part);
      tiles_.tiles = plan_.tiles.Tiles(part);
      tiles_.x = ElementAt(x, in_pairs_, int64_t{begin_} * kLanes);
      WinogradKernels(device_, in_pairs_).input(tiles_);
      gradient_.rows = samples;
      for (int tile = 0; tile < tiles_.tiles; ++tile) Turn(dy, tiles_.tile_begin + tile, output_ + tile * samples * plan_.row);
      Multiply(samples);
      // One of the points of every transform is 1: the element of its row and column is the sum of
      // a tile.
      if (bias_sums != nullptr) AddRows(output_ + (tile_side() + 1) * plan_.output, int64_t{tiles_.tiles} * samples, plan_.row, bias_sums);
    }
  }

 private:
  int64_t tile_side() const { return plan_.tiles.results + plan_.tiles.taps - 1; }

  // Pixels beyond the image are zeros.
  void Turn(const float* dy, int tile, float* to) {
    const int results = plan_.tiles.results;
    const int row = tile / plan_.tiles.width * results;
    const int column = tile % plan_.tiles.width * results;
    const int pixels = std::min(results, shape_.out_w - column);
    for (int i = 0; i < results; ++i) {
      float* const turned = turned_ + results * i * gradient_.from_pixel;
      const int here = row + i < shape_.out_h ? pixels : 0;
      const float* const from = ElementAt(dy, in_pairs_, (int64_t{row + i} * shape_.out_w + column) * shape_.outputs * kLanes);
      if (in_pairs_) {
        device_.bf16->pairs_to_rows(reinterpret_cast<const uint16_t*>(from), turned, here, shape_.outputs, plan_.turned_row);
      } else {
        device_.kernels.panels_to_rows(from, turned, here, shape_.outputs, plan_.turned_row);
      }
      std::fill_n(turned + here * gradient_.from_pixel, (results - here) * gradient_.from_pixel, 0.0f);
    }
    gradient_.to = to;
    device_.kernels.winograd_output_gradient(gradient_);
  }

  void Multiply(int samples) {
    product_.k = tiles_.tiles * samples;
    product_.chunk = samples;
    product_.b_chunk = samples * plan_.row;
    for (int element = 0; element < plan_.tiles.elements; ++element) {
      product_.a = input_ + element * plan_.input;
      product_.b = output_ + element * plan_.output;
      product_.c = sums_ + int64_t{element} * shape_.channels * plan_.row;
      device_.kernels.product(product_);
    }
    product_.accumulate = true;  // what the first tiles have left
  }

  const ConvShape& shape_;
  const Plan& plan_;
  const bool in_pairs_;
  const CpuDevice& device_;
  float* const turned_;  // [results][results][16][turned_row], of one tile
  float* const input_;   // [elements][tiles][channels][16]
  float* const output_;  // [elements][tiles][samples][row]
  float* const sums_;    // [elements][channels][row]
  const int begin_;
  WinogradPanelArgs tiles_;
  WinogradGradientArgs gradient_;
  ProductArgs product_;
};

}  // namespace

bool PrefersWinogradWeightGradient(const ConvShape& shape, int64_t samples) { return HasWinogradShape(shape) && samples > kLanes / 2; }

size_t WinogradWeightGradientScratchFloats(const ConvShape& shape, int threads) {
  const Plan plan(shape);
  return static_cast<size_t>(plan.parts.count() * (plan.sums + plan.row) + threads * plan.thread_floats());
}

void RunWinogradWeightGradient(const ConvShape& shape, int64_t samples, const WinogradOperands& operands, float* dw, float* db,
                               float* scratch, CpuDevice& device) {
  const Plan plan(shape);
  const int64_t x_panel = int64_t{shape.in_h} * shape.in_w * shape.channels * kLanes;
  const int64_t dy_panel = int64_t{shape.out_h} * shape.out_w * shape.outputs * kLanes;
  float* const bias_sums = scratch + plan.parts.count() * plan.sums;
  float* const threads = bias_sums + plan.parts.count() * plan.row;
  std::fill(bias_sums, threads, 0.0f);
  // A thread turns dy of each part that it takes channels of: whole pairs.
  const int unit = operands.in_pairs ? 2 : 1;
  plan.parts.Run(shape.channels / unit, device.pool, [&](int64_t part, int first, int last, int thread) {
    float* const scratch_of_thread = threads + thread * plan.thread_floats();
    PartOfSums sums(shape, plan, operands.in_pairs, scratch + part * plan.sums, scratch_of_thread, first * unit, last * unit, device);
    float* const mine = db != nullptr && first == 0 ? bias_sums + part * plan.row : nullptr;
    for (int64_t panel = plan.parts.begin(part); panel < plan.parts.begin(part + 1); ++panel) {
      sums.Add(ElementAt(operands.x, operands.in_pairs, panel * x_panel), ElementAt(operands.dy, operands.in_pairs, panel * dy_panel),
               static_cast<int>(std::min<int64_t>(kLanes, samples - panel * kLanes)), mine);
    }
  });
  if (db != nullptr) SumParts(bias_sums, plan.parts.count(), plan.row, db, 0, shape.outputs);
  WinogradWeightGradientArgs weights;
  weights.taps = shape.kernel_h;
  weights.results = plan.tiles.results;
  weights.sums_element = shape.channels * plan.row;
  weights.parts = plan.parts.count();
  weights.dw_tap = int64_t{shape.channels} * shape.outputs;
  weights.columns = shape.outputs;
  device.pool.Run(shape.channels, [&](int64_t begin, int64_t end, int) {
    for (int64_t channel = begin; channel < end; ++channel) {
      WinogradWeightGradientArgs mine = weights;
      mine.sums = scratch + channel * plan.row;
      mine.dw = dw + channel * shape.outputs;
      device.kernels.winograd_weight_gradient(mine);
    }
  });
}

}  // namespace trainyard::engine
