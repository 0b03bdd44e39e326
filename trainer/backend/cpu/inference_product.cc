#include "trainer/backend/cpu/inference_product.h"

#include <algorithm>

namespace trainyard::engine {
namespace {

constexpr int64_t kChunkFloats = 32 << 10;  // of x, which stay in the second cache while all weights pass by
constexpr int64_t kScaledFloats = 8 << 10;  // of x when it is scaled first: the nearest cache
constexpr int64_t kLongK = 1024;            // longer sums of several rows are added part by part,
constexpr int64_t kPartK = 512;             // whose weights stay in the second cache

int64_t ScaledRows(int64_t k) { return std::max<int64_t>(1, kScaledFloats / k); }

// Rows [begin, end), which lie at `x`, times `panels` panels from `panel` on: one, or a few of one
// vector for a single row, whose sums then are more than one chain.
void RunPanels(const InferenceProduct& product, const RowsWeights& weights, int64_t panel, int64_t panels, int64_t begin, int64_t end,
               const float* x, const KernelTable& kernels) {
  ConvRowsArgs args;
  args.pixels = static_cast<int>(end - begin);
  args.columns = static_cast<int>((panels - 1) * kLanes) + weights.filled(panel + panels - 1);
  if (panels > 1) args.weights_panel = product.k * kLanes;
  args.x_pixel = product.k;
  args.y_pixel = product.columns;
  const int64_t to = begin * product.columns + weights.begin(panel);
  args.y = product.y + to;
  args.bias = weights.bias(panel);
  const int64_t part_k = args.pixels > 1 && product.k > kLongK ? kPartK : product.k;
  for (int64_t k = 0; k < product.k; k += part_k) {
    const bool last = k + part_k >= product.k;
    args.run = static_cast<int>(std::min(part_k, product.k - k));
    args.x = x + k;
    args.weights = weights.weights(panel) + k * weights.width(panel);
    args.accumulate = k > 0;
    args.add = last && product.add != nullptr ? product.add + to : nullptr;
    args.relu = last && product.activation == Activation::kRelu;
    // Panels and their parts lie one after the other.
    args.next = args.weights + args.run * weights.width(panel);
    args.next_floats = args.run * weights.width(panel);
    if (args.pixels == 1 || (last && panel + 1 == weights.panels())) args.next = nullptr;
    kernels.conv_rows(args);
  }
}

// As RunPanels, all panels [first, last).
void RunAllPanels(const InferenceProduct& product, const RowsWeights& weights, int64_t first, int64_t last, int64_t begin, int64_t end,
                  const float* x, const KernelTable& kernels) {
  const int64_t together = end - begin == 1 && kernels.max_rows_vectors == 1 ? kMostRowsVectors : 1;
  for (int64_t panel = first; panel < last; panel += together) {
    RunPanels(product, weights, panel, std::min(together, last - panel), begin, end, x, kernels);
  }
}

void RunScaled(const InferenceProduct& product, const RowsWeights& weights, CpuDevice& device) {
  const int64_t threads = device.pool.threads();
  const int64_t chunk = std::min(ScaledRows(product.k), (product.rows + threads - 1) / threads);
  device.pool.Run((product.rows + chunk - 1) / chunk, [&](int64_t begin, int64_t end, int thread) {
    float* const scaled = product.scratch + thread * PaddedFloats(ScaledRows(product.k) * product.k);
    for (int64_t row = begin * chunk; row < std::min(end * chunk, product.rows); row += chunk) {
      const int64_t last = std::min(product.rows, row + chunk);
      BatchNormArgs args;
      args.pixels = last - row;
      args.channels = static_cast<int>(product.k);
      args.relu = product.relu;
      args.scale = product.scale;
      args.shift = product.shift;
      args.x = product.x + row * product.k;
      args.y = scaled;
      device.kernels.scale_rows(args);
      RunAllPanels(product, weights, 0, weights.panels(), row, last, scaled, device.kernels);
    }
  });
  ActivateRows(product.y, product.rows * product.columns, product.activation, device);
}

}  // namespace

int64_t InferenceProductScratchFloats(int64_t k, const CpuDevice& device) {
  return PaddedFloats(ScaledRows(k) * k) * device.pool.threads();
}

void RunInferenceProduct(const InferenceProduct& product, const RowsWeights& weights, CpuDevice& device) {
  if (product.scale != nullptr) return RunScaled(product, weights, device);
  const int64_t chunk = std::clamp<int64_t>(kChunkFloats / std::min(product.k, kLongK), 1, product.rows);
  const int64_t chunks = (product.rows + chunk - 1) / chunk;
  if (chunks >= device.pool.threads()) {
    device.pool.Run(chunks, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        RunAllPanels(product, weights, 0, weights.panels(), i * chunk, std::min(product.rows, (i + 1) * chunk),
                     product.x + i * chunk * product.k, device.kernels);
      }
    });
  } else {
    device.pool.Run(weights.panels(), [&](int64_t begin, int64_t end, int) {
      RunAllPanels(product, weights, begin, end, 0, product.rows, product.x, device.kernels);
    });
  }
  ActivateRows(product.y, product.rows * product.columns, product.activation, device);
}

void ActivateRows(float* y, int64_t elements, Activation activation, CpuDevice& device) {
  if (activation == Activation::kIdentity || activation == Activation::kRelu) return;
  device.pool.Run(VectorsFor(elements), [&](int64_t begin, int64_t end, int) {
    device.kernels.activate(y + begin * kLanes, y + begin * kLanes, end - begin, activation);
  });
}

}  // namespace trainyard::engine
