#include "trainer/backend/cpu/inference_winograd.h"

#include <algorithm>

#include "trainer/backend/cpu/inference_product.h"
#include "trainer/backend/cpu/winograd_tiles.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kTransformedFloats = 80 << 10;  // of transformed values: a part of the second cache

int64_t TilesOf(int64_t pixels, int tile) { return (pixels + tile - 1) / tile; }

class WinogradConv2d final : public Kernel {
 public:
  WinogradConv2d(CpuDevice& device, const ConvGeometry& geometry, int tile, const Epilogue& epilogue, const std::optional<PoolArgs>& pool)
      : device_(device),
        g_(geometry),
        tile_(tile),
        elements_((tile + 2) * (tile + 2)),
        epilogue_(epilogue),
        pool_(pool),
        tiles_h_(TilesOf(g_.out_h, tile)),
        tiles_w_(TilesOf(g_.out_w, tile)) {
    strip_ = std::clamp<int64_t>(kTransformedFloats / (elements_ * tiles_w_ * (g_.channels + g_.outputs)), 1, tiles_h_);
    const int64_t threads = device_.pool.threads();
    if (!pool_ && g_.samples < threads) strip_ = std::min(strip_, (tiles_h_ * g_.samples + threads - 1) / threads);
    strips_ = (tiles_h_ + strip_ - 1) / strip_;
    strip_ = (tiles_h_ + strips_ - 1) / strips_;
    weights_ = RowsWeights(elements_ * g_.channels, g_.outputs, RowsVectors(g_.outputs, tiles_h_ * tiles_w_, device_.kernels));
    covered_floats_ = PaddedFloats(Rows(strip_) * Width() * g_.channels);
    pooled_floats_ = pool_ ? PaddedFloats(g_.out_h * g_.out_w * g_.outputs) : 0;
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(ThreadFloats() * device_.pool.threads()) * sizeof(float); }

  void Prepare(std::span<const void* const> inputs) override {
    RowsParameters parameters = ParametersOf(epilogue_, inputs);
    parameters.winograd_tile = tile_;
    weights_.Pack(parameters, device_);
  }

  void Run(const KernelContext& context) override {
    const float* x = context.input<float>(0);
    const float* add = epilogue_.add ? context.input<float>(static_cast<int>(context.inputs.size()) - 1) : nullptr;
    float* y = context.output<float>(0);
    // A pool wants the whole image.
    const int64_t units = pool_ ? 1 : strips_;
    device_.pool.Run(g_.samples * units, [&](int64_t begin, int64_t end, int thread) {
      float* const scratch = static_cast<float*>(context.scratch) + thread * ThreadFloats();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sample = i / units;
        const float* image = x + sample * g_.in_h * g_.in_w * g_.channels;
        if (!pool_) {
          const int64_t at = sample * ImageFloats();
          RunStrip(i % units * strip_, image, add == nullptr ? nullptr : add + at, y + at, scratch);
          continue;
        }
        float* const whole = scratch + ThreadFloats() - pooled_floats_;
        for (int64_t strip = 0; strip < strips_; ++strip) RunStrip(strip * strip_, image, nullptr, whole, scratch);
        PoolArgs pool = *pool_;
        pool.x = whole;
        pool.y = y + sample * pool.out_h * pool.out_w * g_.outputs;
        device_.kernels.max_pool_rows(pool, 0, 1);
      }
    });
    ActivateRows(y, g_.samples * (pool_ ? int64_t{pool_->out_h} * pool_->out_w * g_.outputs : ImageFloats()), epilogue_.activation,
                 device_);
  }

 private:
  // Of x, which so many rows of tiles read, and all columns.
  int64_t Rows(int64_t tiles) const { return tile_ * tiles + 2; }
  int64_t Width() const { return tile_ * tiles_w_ + 2; }
  int64_t ImageFloats() const { return g_.out_h * g_.out_w * g_.outputs; }
  // Floats between elements of transformed values: a line more than they have. So the elements
  // of a tile do not share few places of the nearest cache.
  int64_t Element(int64_t channels) const { return strip_ * tiles_w_ * channels + kLanes; }
  int64_t ThreadFloats() const { return covered_floats_ + elements_ * (Element(g_.channels) + Element(g_.outputs)) + pooled_floats_; }

  // Rows of tiles from `first` on; add and y are of the whole image.
  void RunStrip(int64_t first, const float* image, const float* add, float* y, float* scratch) const {
    const int64_t tile_rows = std::min(strip_, tiles_h_ - first);
    const int64_t tiles = tile_rows * tiles_w_;
    float* const input = scratch + covered_floats_;                  // [elements][tiles][channels]
    float* const output = input + elements_ * Element(g_.channels);  // [elements][tiles][outputs]
    CopyCovered(g_, image, tile_ * first, Rows(tile_rows), Width(), scratch);
    WinogradArgs args;
    args.tile = tile_;
    args.tiles_h = static_cast<int>(tile_rows);
    args.tiles_w = static_cast<int>(tiles_w_);
    args.channels = static_cast<int>(g_.channels);
    args.x = scratch;
    args.x_row = Width() * g_.channels;
    args.transformed = input;
    args.element = Element(g_.channels);
    device_.kernels.winograd_input(args);
    ConvRowsArgs product;
    product.pixels = static_cast<int>(tiles);
    product.run = static_cast<int>(g_.channels);
    product.x_pixel = g_.channels;
    product.y_pixel = g_.outputs;
    for (int64_t element = 0; element < elements_; ++element) {
      product.x = input + element * Element(g_.channels);
      for (int64_t panel = 0; panel < weights_.panels(); ++panel) {
        product.columns = weights_.filled(panel);
        product.weights = weights_.weights(panel) + element * g_.channels * weights_.width(panel);
        product.y = output + element * Element(g_.outputs) + weights_.begin(panel);
        const bool more = panel + 1 < weights_.panels();
        const int64_t next = more ? panel + 1 : 0;
        const int64_t next_element = more ? element : element + 1;
        product.next_floats = g_.channels * weights_.width(next);
        product.next = next_element == elements_ ? nullptr : weights_.weights(next) + next_element * product.next_floats;
        device_.kernels.conv_rows(product);
      }
    }
    const int64_t at = tile_ * first * g_.out_w * g_.outputs;
    args.channels = static_cast<int>(g_.outputs);
    args.transformed = output;
    args.element = Element(g_.outputs);
    args.out_h = static_cast<int>(g_.out_h - tile_ * first);
    args.out_w = static_cast<int>(g_.out_w);
    args.bias = weights_.bias(0);
    args.add = add == nullptr ? nullptr : add + at;
    args.relu = epilogue_.activation == Activation::kRelu;
    args.y = y + at;
    device_.kernels.winograd_output(args);
  }

  CpuDevice& device_;
  const ConvGeometry g_;
  const int tile_;          // pixels of y to a side
  const int64_t elements_;  // of a transformed tile
  const Epilogue epilogue_;
  const std::optional<PoolArgs> pool_;
  const int64_t tiles_h_, tiles_w_;  // of an image
  int64_t strip_ = 1, strips_ = 1;   // rows of tiles that are done at a time, and how many make an image
  RowsWeights weights_;              // of the elements, one after the other
  int64_t covered_floats_ = 0, pooled_floats_ = 0;
};

}  // namespace

int WinogradTile(const ConvGeometry& g) {
  const bool pays = g.kernel_h == 3 && g.kernel_w == 3 && g.stride_h == 1 && g.stride_w == 1 && g.channels % kLanes == 0 &&
                    g.outputs % kLanes == 0 && g.out_h >= 4 && g.out_w >= 4;
  if (!pays) return 0;
  // A few large tiles would cost their weights' way from memory.
  constexpr int64_t kLeastTiles = 9;
  return TilesOf(g.out_h, 4) * TilesOf(g.out_w, 4) >= kLeastTiles && LargeTilesCoverWell(g.out_h, g.out_w) ? 4 : 2;
}

std::unique_ptr<Kernel> MakeWinograd(CpuDevice& device, const ConvGeometry& geometry, int tile, const Epilogue& epilogue,
                                     const std::optional<PoolArgs>& pool) {
  return std::make_unique<WinogradConv2d>(device, geometry, tile, epilogue, pool);
}

}  // namespace trainyard::engine
