// Convolutions of inference: each image strip by strip of output rows. A strip whose windows reach
// beyond the image is copied with its padding first.
#include <algorithm>
#include <cmath>

#include "trainer/backend/cpu/conv_geometry.h"
#include "trainer/backend/cpu/inference.h"
#include "trainer/backend/cpu/inference_product.h"
#include "trainer/backend/cpu/inference_winograd.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/cpu/pool_args.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kStripFloats = 128 << 10;  // of padded input: a part of the second cache

class InferenceConv2d final : public Kernel {
 public:
  InferenceConv2d(CpuDevice& device, const ConvGeometry& geometry, const Conv2dOp& op, const std::optional<PoolArgs>& pool)
      : device_(device),
        g_(geometry),
        epilogue_(op.epilogue),
        normalise_(op.normalise),
        pool_(pool),
        weights_(g_.kernel_h * g_.kernel_w * g_.channels, g_.outputs,
                 RowsVectors(g_.outputs, g_.pointwise() ? g_.out_h * g_.out_w : g_.out_w, device.kernels)) {
    // A pool wants the whole image.
    const int64_t row = std::max<int64_t>(1, g_.stride_h * g_.covered_w() * g_.channels);
    strip_rows_ = pool_ ? g_.out_h : std::clamp<int64_t>(kStripFloats / row, 1, g_.out_h);
    const int64_t threads = device_.pool.threads();
    if (!pool_ && g_.samples < threads) strip_rows_ = std::min(strip_rows_, (g_.out_h * g_.samples + threads - 1) / threads);
    strips_ = (g_.out_h + strip_rows_ - 1) / strip_rows_;
    padded_floats_ = g_.padded() ? PaddedFloats(((strip_rows_ - 1) * g_.stride_h + g_.kernel_h) * g_.covered_w() * g_.channels) : 0;
    if (normalise_) {
      TY_CHECK(g_.pointwise() && !pool_);
      scales_ = Buffer(static_cast<size_t>(2 * PaddedFloats(g_.channels)) * sizeof(float));
      return;
    }
    thread_floats_ = padded_floats_ + (pool_ ? PaddedFloats(g_.out_h * g_.out_w * g_.outputs) : 0);
  }

  size_t scratch_bytes() const override {
    const int64_t floats = normalise_ ? InferenceProductScratchFloats(g_.channels, device_) : thread_floats_ * device_.pool.threads();
    return static_cast<size_t>(floats) * sizeof(float);
  }

  void Prepare(std::span<const void* const> inputs) override {
    weights_.Pack(ParametersOf(epilogue_, inputs), device_);
    if (!normalise_) return;
    const auto statistics = inputs.subspan(inputs.size() - (epilogue_.add ? 5 : 4), 4);
    const auto at = [&](size_t i, int64_t channel) { return static_cast<const float*>(statistics[i])[channel]; };
    for (int64_t c = 0; c < g_.channels; ++c) {
      scale()[c] = at(0, c) / std::sqrt(at(3, c) + normalise_->epsilon);
      shift()[c] = at(1, c) - at(2, c) * scale()[c];
    }
  }

  void Run(const KernelContext& context) override {
    const float* x = context.input<float>(0);
    const float* add = epilogue_.add ? context.input<float>(static_cast<int>(context.inputs.size()) - 1) : nullptr;
    float* y = context.output<float>(0);
    if (g_.pointwise() && !pool_) {
      RunInferenceProduct({.rows = g_.samples * g_.out_h * g_.out_w,
                           .k = g_.channels,
                           .columns = g_.outputs,
                           .x = x,
                           .add = add,
                           .y = y,
                           .activation = epilogue_.activation,
                           .scale = normalise_ ? scale() : nullptr,
                           .shift = normalise_ ? shift() : nullptr,
                           .relu = normalise_ && normalise_->relu,
                           .scratch = static_cast<float*>(context.scratch)},
                          weights_, device_);
      return;
    }
    device_.pool.Run(g_.samples * strips_, [&](int64_t begin, int64_t end, int thread) {
      float* const scratch = static_cast<float*>(context.scratch) + thread * thread_floats_;
      for (int64_t i = begin; i < end; ++i) RunStrip(i / strips_, i % strips_ * strip_rows_, x, add, y, scratch);
    });
    ActivateRows(y, g_.samples * (pool_ ? int64_t{pool_->out_h} * pool_->out_w : g_.out_h * g_.out_w) * g_.outputs, epilogue_.activation,
                 device_);
  }

 private:
  float* scale() { return scales_.as<float>(); }
  float* shift() { return scale() + PaddedFloats(g_.channels); }

  void RunStrip(int64_t sample, int64_t first_row, const float* x, const float* add, float* y, float* scratch) const {
    const int64_t rows = std::min(strip_rows_, g_.out_h - first_row);
    const int64_t y_row = g_.out_w * g_.outputs;
    const int64_t at = (sample * g_.out_h + first_row) * y_row;
    ConvRowsArgs args;
    args.rows = static_cast<int>(rows);
    args.pixels = static_cast<int>(g_.out_w);
    args.kernel_rows = static_cast<int>(g_.kernel_h);
    args.run = static_cast<int>(g_.kernel_w * g_.channels);
    args.x = x + (sample * g_.in_h + first_row * g_.stride_h) * g_.in_w * g_.channels;
    args.x_kernel_row = g_.in_w * g_.channels;
    if (g_.padded()) {
      CopyCovered(g_, x + sample * g_.in_h * g_.in_w * g_.channels, first_row * g_.stride_h, (rows - 1) * g_.stride_h + g_.kernel_h,
                  g_.covered_w(), scratch);
      args.x = scratch;
      args.x_kernel_row = g_.covered_w() * g_.channels;
    }
    args.x_row = args.x_kernel_row * g_.stride_h;
    args.x_pixel = g_.channels * g_.stride_w;
    args.relu = epilogue_.activation == Activation::kRelu;
    args.y_row = y_row;
    args.y_pixel = g_.outputs;
    float* const to = pool_ ? scratch + padded_floats_ : y + at;
    for (int64_t panel = 0; panel < weights_.panels(); ++panel) {
      args.columns = weights_.filled(panel);
      args.weights = weights_.weights(panel);
      args.weights_row = args.run * weights_.width(panel);
      args.bias = weights_.bias(panel);
      args.add = add == nullptr ? nullptr : add + at + weights_.begin(panel);
      args.y = to + weights_.begin(panel);
      device_.kernels.conv_rows(args);
    }
    if (!pool_) return;
    PoolArgs pool = *pool_;
    pool.x = to;
    pool.y = y + sample * pool.out_h * pool.out_w * g_.outputs;
    device_.kernels.max_pool_rows(pool, 0, 1);
  }

  CpuDevice& device_;
  const ConvGeometry g_;
  const Epilogue epilogue_;
  const std::optional<Conv2dOp::Normalise> normalise_;
  const std::optional<PoolArgs> pool_;
  RowsWeights weights_;
  Buffer scales_;                        // of x's normalisation: scale, then shift
  int64_t strip_rows_ = 1, strips_ = 1;  // rows of y, and how many make an image
  int64_t padded_floats_ = 0;            // of a strip
  int64_t thread_floats_ = 0;            // of scratch
};

}  // namespace

CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const Conv2dOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  TY_ASSIGN_OR_RETURN(const ConvGeometry geometry, GeometryOf(op.window, node.in(0).shape, node.in(1).shape));
  std::optional<PoolArgs> pool;
  if (op.epilogue.max_pool) {
    TY_ASSIGN_OR_RETURN(pool, MakePoolArgs(*op.epilogue.max_pool, {geometry.samples, geometry.out_h, geometry.out_w, geometry.outputs}));
  }
  if (const int tile = WinogradTile(geometry); tile > 0) return MakeWinograd(device, geometry, tile, op.epilogue, pool);
  return std::make_unique<InferenceConv2d>(device, geometry, op, pool);
}

}  // namespace trainyard::engine
