#include "trainer/backend/cpu/rows_weights.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "trainer/base/check.h"

namespace trainyard::engine {

RowsParameters ParametersOf(const Epilogue& epilogue, std::span<const void* const> inputs) {
  const auto at = [&](size_t i) { return static_cast<const float*>(inputs[i]); };
  RowsParameters parameters{.weights = at(1)};
  size_t next = 2;
  if (epilogue.bias) parameters.bias = at(next++);
  if (epilogue.batch_norm) {
    parameters.gamma = at(next);
    parameters.beta = at(next + 1);
    parameters.mean = at(next + 2);
    parameters.variance = at(next + 3);
    parameters.epsilon = *epilogue.batch_norm;
  }
  return parameters;
}

// By a model of the loop, in cycles for each vector of columns: multiply-adds, loads, or the
// latency of a chain.
int RowsVectors(int64_t columns, int64_t pixels, const KernelTable& kernels) {
  const int64_t all = VectorsFor(columns);
  int best = 1;
  double best_cycles = std::numeric_limits<double>::infinity();
  for (int most = 1; most <= kernels.max_rows_vectors; ++most) {
    const int64_t panels = (all + most - 1) / most;
    const int64_t vectors = (all + panels - 1) / panels;
    const int64_t most_pixels = kernels.rows_pixels[vectors];
    const int64_t parts = (pixels + most_pixels - 1) / most_pixels;
    const double part = static_cast<double>(pixels) / static_cast<double>(parts);
    const double step = std::max({part * vectors / 2.0, (part + vectors) / 2.0, 4.0}) + 0.5;
    const double cycles = step * static_cast<double>(parts * panels);
    if (cycles < best_cycles) {
      best_cycles = cycles;
      best = most;
    }
  }
  return best;
}

void RowsWeights::Pack(const RowsParameters& p, CpuDevice& device) {
  TY_CHECK(p.weights != nullptr);
  const auto floats = static_cast<size_t>((k_ + 1) * vectors_ * kLanes);
  memory_ = device.weights.Get(
      {{p.weights, p.bias, p.gamma, p.beta, p.mean, p.variance}, fmt::format("rows {} {} {}", panels_, p.epsilon, p.winograd_tile)}, floats,
      [&](float* memory) { Fill(p, memory, device); });
}

void RowsWeights::Fill(const RowsParameters& p, float* memory, CpuDevice& device) const {
  const float* weights = p.weights;
  std::vector<float> winograd;
  if (p.winograd_tile != 0) {
    const int64_t side = p.winograd_tile + 2;
    const int64_t each = k_ / (side * side) * columns_;  // inputs and outputs counted as one
    winograd.resize(static_cast<size_t>(k_ * columns_));
    device.kernels.winograd_panels.weights(
        {.results = p.winograd_tile, .weights = p.weights, .transformed = winograd.data(), .count = each, .begin = 0, .end = each});
    weights = winograd.data();
  }
  if (p.bias != nullptr) std::copy_n(p.bias, columns_, memory);
  for (int64_t panel = 0; panel < panels_; ++panel) {
    device.kernels.pack_rows({.from = weights + begin(panel),
                              .to = memory + vectors_ * kLanes + begin(panel) * k_,
                              .from_row = columns_,
                              .rows = static_cast<int>(k_),
                              .columns = filled(panel),
                              .width = static_cast<int>(width(panel))});
  }
  if (p.gamma == nullptr) return;
  for (int64_t panel = 0; panel < panels_; ++panel) {
    float* const to = memory + vectors_ * kLanes + begin(panel) * k_;
    for (int64_t i = 0; i < filled(panel); ++i) {
      const int64_t column = begin(panel) + i;
      const float scale = p.gamma[column] / std::sqrt(p.variance[column] + p.epsilon);
      memory[column] = (memory[column] - p.mean[column]) * scale + p.beta[column];
      for (int64_t k = 0; k < k_; ++k) to[k * width(panel) + i] *= scale;
    }
  }
}

}  // namespace trainyard::engine
