#include "trainer/onnx/cell_layout.h"

#include <array>

#include "trainer/tensor/permute.h"

namespace trainyard::engine {
namespace {

// Our gate at each place of ONNX's.
constexpr std::array kOnnxLstmGates = {0, 3, 1, 2};
constexpr std::array kOnnxGruGates = {0, 1, 2};
constexpr std::array kOnnxOneGate = {0};
constexpr std::array kSwappedAxes = {1, 0};

std::span<const int> OnnxGatesOf(Cell cell) {
  if (cell == Cell::kLstm) return kOnnxLstmGates;
  if (cell == Cell::kGru) return kOnnxGruGates;
  return kOnnxOneGate;
}

// Each row of [rows, G units].
std::vector<float> ReorderedRows(std::span<const float> rows, int64_t width, std::span<const int> order) {
  std::vector<float> reordered;
  for (size_t begin = 0; begin < rows.size(); begin += static_cast<size_t>(width)) {
    const std::vector<float> row = ReorderedBlocks(rows.subspan(begin, static_cast<size_t>(width)), order);
    reordered.insert(reordered.end(), row.begin(), row.end());
  }
  return reordered;
}

}  // namespace

std::string_view OnnxCell(Cell cell) {
  if (cell == Cell::kLstm) return "LSTM";
  return cell == Cell::kGru ? "GRU" : "RNN";
}

std::vector<float> OnnxGates(Cell cell, const Shape& shape, std::span<const float> kernel) {
  return ReorderedBlocks(Permuted(kernel, shape, kSwappedAxes), OnnxGatesOf(cell));
}

std::vector<float> GatesOfOnnx(Cell cell, const Shape& shape, std::span<const float> gates) {
  const std::vector<float> ours = ReorderedBlocks(gates, InverseOrder(OnnxGatesOf(cell)));
  return Permuted(ours, PermutedShape(shape, kSwappedAxes), kSwappedAxes);
}

std::vector<float> OnnxBias(Cell cell, const Shape& shape, std::span<const float> bias) {
  std::vector<float> both = ReorderedRows(bias, shape[-1], OnnxGatesOf(cell));
  both.resize(static_cast<size_t>(2 * shape[-1]));  // zeros for the state, but for a GRU
  return both;
}

std::vector<float> BiasOfOnnx(Cell cell, const Shape& shape, std::span<const float> both) {
  std::vector<float> bias = ReorderedRows(both, shape[-1], InverseOrder(OnnxGatesOf(cell)));
  if (shape.rank() == 2) return bias;
  const auto width = static_cast<size_t>(shape[-1]);
  for (size_t i = 0; i < width; ++i) bias[i] += bias[width + i];
  bias.resize(width);
  return bias;
}

}  // namespace trainyard::engine
