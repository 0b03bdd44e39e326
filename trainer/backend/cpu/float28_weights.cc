#include "trainer/backend/cpu/float28_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "trainer/backend/cpu/inference_product.h"
#include "trainer/backend/cpu/layout.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kLeastRowsToAWide = 16;  // of a panel: a row of floats costs more than two that are packed
constexpr int kMostExponent = 60;          // of a panel's largest weight: sums keep clear of a float's ends

constexpr uint32_t kExponentAndMantissa = 0x07ffffffu;  // of a weight: 4 and 23 bits

uint32_t ExponentOf(uint32_t bits) { return bits >> 23 & 0xff; }

// Two weights, scaled, as seven bytes.
void PutPair(uint32_t first, uint32_t second, uint8_t* to) {
  const auto upper = [](uint32_t bits) { return bits >> 31 | (bits & kExponentAndMantissa) >> 24 << 1; };
  constexpr uint32_t kLow = 0xffffff;
  const uint64_t pair =
      (first & kLow) | static_cast<uint64_t>(second & kLow) << 24 | static_cast<uint64_t>(upper(first) | upper(second) << 4) << 48;
  std::memcpy(to, &pair, 7);
}

}  // namespace

std::optional<Float28Weights> Float28Weights::Pack(int64_t k, int64_t columns, const float* weights, const float* bias, CpuDevice& device) {
  Float28Weights packed(k, columns);
  if (!packed.Survey(weights, bias)) return std::nullopt;
  const auto bytes = static_cast<size_t>(packed.panels_ * k * 2 * kFloat28VectorBytes + kFloat28Slack);
  const size_t floats = static_cast<size_t>(packed.bias_floats()) + (bytes + sizeof(float) - 1) / sizeof(float);
  packed.memory_ =
      device.weights.Get({{weights, bias}, "float28"}, floats, [&](float* memory) { packed.Fill(weights, bias, memory, device.pool); });
  return packed;
}

const uint8_t* Float28Weights::panels_at() const { return reinterpret_cast<const uint8_t*>(memory_.get() + bias_floats()); }

bool Float28Weights::Survey(const float* weights, const float* bias) {
  for (int64_t panel = 0; panel < panels_; ++panel) {
    wide_begin_.push_back(wide_rows());
    if (!SurveyPanel(panel, weights, bias)) return false;
  }
  wide_begin_.push_back(wide_rows());
  return wide_rows() * kLeastRowsToAWide <= panels_ * k_;
}

bool Float28Weights::SurveyPanel(int64_t panel, const float* weights, const float* bias) {
  const int64_t begin = panel * kFloat28Columns;
  const int64_t columns = std::min(columns_ - begin, int64_t{kFloat28Columns});
  float largest = 0.0f;
  bool finite = true;
  for (int64_t row = 0; row < k_; ++row) {
    for (int64_t i = 0; i < columns; ++i) {
      const float size = std::abs(weights[row * columns_ + begin + i]);
      finite = finite && std::isfinite(size);
      largest = std::max(largest, size);
    }
  }
  const int exponent = largest > 0.0f ? std::ilogb(largest) : -kMostExponent - 1;
  if (!finite || std::abs(exponent) > kMostExponent) return false;
  const float up = std::ldexp(1.0f, -exponent);
  scales_.push_back(std::ldexp(1.0f, exponent));
  for (int64_t i = 0; bias != nullptr && i < columns; ++i) {
    if (!(std::abs(bias[begin + i] * up) < 0x1p100f)) return false;
  }
  for (int64_t row = 0; row < k_; ++row) {
    const float* const of_row = weights + row * columns_ + begin;
    if (std::all_of(of_row, of_row + columns,
                    [up](float weight) { return ExponentOf(std::bit_cast<uint32_t>(weight * up)) >= kFloat28Least; }))
      continue;
    Float28WideRow& wide = wide_.emplace_back(Float28WideRow{.k = row, .weights = {}});
    std::transform(of_row, of_row + columns, wide.weights, [up](float weight) { return weight * up; });
  }
  return true;
}

void Float28Weights::Fill(const float* weights, const float* bias, float* memory, ThreadPool& pool) const {
  for (int64_t column = 0; bias != nullptr && column < columns_; ++column)
    memory[column] = bias[column] / scales_[column / kFloat28Columns];
  auto* const panels = reinterpret_cast<uint8_t*>(memory + bias_floats());
  pool.Run(panels_, [&](int64_t begin, int64_t end, int) {
    uint8_t* to = panels + begin * k_ * 2 * kFloat28VectorBytes;
    for (int64_t panel = begin; panel < end; ++panel) {
      const float up = 1.0f / scales_[panel];
      // Columns behind the last are zeros, which are packed as anything: nobody stores their sums.
      const auto at = [&](int64_t row, int64_t column) {
        return std::bit_cast<uint32_t>(column < columns_ ? weights[row * columns_ + column] * up : 0.0f);
      };
      for (int64_t row = 0; row < k_; ++row) {
        for (int64_t pair = 0; pair < kFloat28Columns / 2; ++pair, to += 7) {
          const int64_t column = panel * kFloat28Columns + 2 * pair;
          PutPair(at(row, column), at(row, column + 1), to);
        }
      }
    }
  });
}

void Float28Weights::Multiply(const float* x, float* y, Activation activation, CpuDevice& device) const {
  Float28Args args;
  args.x = x;
  args.k = k_;
  args.columns = columns_;
  args.weights = panels_at();
  args.scales = scales_.data();
  args.bias = memory_.get();
  args.wide = wide_.data();
  args.wide_begin = wide_begin_.data();
  args.relu = activation == Activation::kRelu;
  args.y = y;
  device.pool.Run(panels_, [&](int64_t begin, int64_t end, int) {
    Float28Args part = args;
    part.begin = begin;
    part.end = end;
    device.float28(part);
  });
  ActivateRows(y, columns_, activation, device);
}

float Float28Weights::At(int64_t row, int64_t column) const {
  const int64_t panel = column / kFloat28Columns;
  const int64_t pair = (panel * k_ + row) * (kFloat28Columns / 2) + column % kFloat28Columns / 2;
  uint64_t bytes = 0;
  std::memcpy(&bytes, panels_at() + pair * 7, 7);
  const int64_t half = column % 2;
  const auto upper = static_cast<uint32_t>(bytes >> (48 + 4 * half)) & 15;
  const auto low = static_cast<uint32_t>(bytes >> (24 * half)) & 0xffffff;
  return std::bit_cast<float>((upper & 1) << 31 | kFloat28Least << 23 | upper >> 1 << 24 | low) * scales_[panel];
}

}  // namespace trainyard::engine
