#include "trainer/backend/cpu/rows_weights.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "trainer/base/check.h"

namespace trainyard::engine {

namespace {

// G g G^T of every kernel: [3][3][inputs] → [16][inputs], inputs and outputs counted as one.
std::vector<float> WinogradKernels(const float* weights, int64_t each) {
  std::vector<float> transformed(static_cast<size_t>(16 * each));
  for (int64_t i = 0; i < each; ++i) {
    std::array<std::array<float, 3>, 4> rows;
    const auto transform = [](float a, float b, float c) { return std::array{a, 0.5f * (a + b + c), 0.5f * (a - b + c), c}; };
    for (int64_t column = 0; column < 3; ++column) {
      const auto at = [&](int64_t row) { return weights[(row * 3 + column) * each + i]; };
      const auto transformed_column = transform(at(0), at(1), at(2));
      for (size_t row = 0; row < 4; ++row) rows[row][column] = transformed_column[row];
    }
    for (size_t row = 0; row < 4; ++row) {
      const auto elements = transform(rows[row][0], rows[row][1], rows[row][2]);
      for (size_t column = 0; column < 4; ++column) transformed[(row * 4 + column) * each + i] = elements[column];
    }
  }
  return transformed;
}

}  // namespace

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
      {{p.weights, p.bias, p.gamma, p.beta, p.mean, p.variance}, fmt::format("rows {} {} {}", panels_, p.epsilon, p.winograd)}, floats,
      [&](float* memory) { Fill(p, memory, device); });
}

void RowsWeights::Fill(const RowsParameters& p, float* memory, CpuDevice& device) const {
  const std::vector<float> winograd = p.winograd ? WinogradKernels(p.weights, k_ / 16 * columns_) : std::vector<float>();
  const float* const weights = p.winograd ? winograd.data() : p.weights;
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
