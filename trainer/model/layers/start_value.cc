#include "trainer/model/layers/start_value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "absl/strings/numbers.h"
#include "trainer/base/check.h"
#include "trainer/base/sha256.h"
#include "trainer/ops/philox.h"

namespace trainyard::engine {
namespace {

// Independent random words for each (element, attempt) of one tensor.
class TensorRandom {
 public:
  TensorRandom(uint64_t seed, std::string_view name) : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {
    Sha256 hash;
    hash.Update(name);
    uint64_t digest = 0;
    TY_CHECK(absl::SimpleHexAtoi(hash.HexDigest().substr(0, 16), &digest));
    key_[0] ^= static_cast<uint32_t>(digest);
    key_[1] ^= static_cast<uint32_t>(digest >> 32);
  }
  PhiloxCounter Words(uint64_t element, uint32_t attempt) const {
    return Philox({static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32), attempt, 0}, key_);
  }

 private:
  PhiloxKey key_;
};

// In [0, 1), from 53 bits.
double Unit(uint32_t high, uint32_t low) { return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1.0p-53; }

void FillUniform(const TensorRandom& random, double limit, std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const PhiloxCounter words = random.Words(i, 0);
    values[i] = static_cast<float>((2 * Unit(words[0], words[1]) - 1) * limit);
  }
}

// Normal (Box, Muller 1958) without what lies beyond two standard deviations; `deviation` is that
// of the result.
void FillTruncatedNormal(const TensorRandom& random, double deviation, std::span<float> values) {
  constexpr double kDeviationAfterCut = 0.87962566103423978;  // of a unit normal cut at ±2
  const double scale = deviation / kDeviationAfterCut;
  for (size_t i = 0; i < values.size(); ++i) {
    double normal = 0;
    uint32_t attempt = 0;
    do {
      const PhiloxCounter words = random.Words(i, attempt++);
      const double radius = std::sqrt(-2 * std::log(1 - Unit(words[0], words[1])));
      normal = radius * std::cos(2 * std::numbers::pi * Unit(words[2], words[3]));
    } while (std::abs(normal) > 2);
    values[i] = static_cast<float>(normal * scale);
  }
}

// The dot product of doubles in a fixed order that the compiler may run four at a time.
double Dot(std::span<const double> a, std::span<const double> b) {
  std::array<double, 4> sums{};
  size_t i = 0;
  for (; i + 4 <= a.size(); i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Modified Gram-Schmidt over the shorter extent of the matrix.
void FillOrthogonal(const TensorRandom& random, const Shape& shape, std::span<float> values) {
  const auto columns = static_cast<size_t>(shape.rank() == 0 ? 1 : shape[-1]);
  const size_t rows = values.size() / columns;
  const size_t count = std::min(rows, columns);
  const size_t length = std::max(rows, columns);
  std::vector<double> matrix(count * length);
  for (size_t i = 0; i < matrix.size(); ++i) {
    const PhiloxCounter words = random.Words(i, 0);
    matrix[i] = std::sqrt(-2 * std::log(1 - Unit(words[0], words[1]))) * std::cos(2 * std::numbers::pi * Unit(words[2], words[3]));
  }
  const auto vector = [&](size_t i) { return std::span(matrix).subspan(i * length, length); };
  for (size_t i = 0; i < count; ++i) {
    const double norm = std::sqrt(Dot(vector(i), vector(i)));
    for (double& x : vector(i)) x /= norm;
    for (size_t j = i + 1; j < count; ++j) {
      const double along = Dot(vector(i), vector(j));
      for (size_t k = 0; k < length; ++k) vector(j)[k] -= along * vector(i)[k];
    }
  }
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      values[row * columns + column] = static_cast<float>(rows <= columns ? vector(row)[column] : vector(column)[row]);
    }
  }
}

struct Fans {
  double in = 1;
  double out = 1;
};

Fans FansOf(const Shape& shape) {
  if (shape.rank() < 2) return {.in = static_cast<double>(shape.elements()), .out = static_cast<double>(shape.elements())};
  double receptive = 1;
  for (int axis = 0; axis + 2 < shape.rank(); ++axis) receptive *= static_cast<double>(shape[axis]);
  return {.in = receptive * static_cast<double>(shape[-2]), .out = receptive * static_cast<double>(shape[-1])};
}

// Every element of `values` by `initializer`.
void Fill(Initializer initializer, const TensorRandom& random, const Shape& shape, std::span<float> values) {
  const Fans fans = FansOf(shape);
  switch (initializer) {
    case Initializer::kZeros:
      std::ranges::fill(values, 0.0F);
      return;
    case Initializer::kOnes:
      std::ranges::fill(values, 1.0F);
      return;
    case Initializer::kGlorotUniform:
      return FillUniform(random, std::sqrt(6 / (fans.in + fans.out)), values);
    case Initializer::kGlorotNormal:
      return FillTruncatedNormal(random, std::sqrt(2 / (fans.in + fans.out)), values);
    case Initializer::kHeUniform:
      return FillUniform(random, std::sqrt(6 / fans.in), values);
    case Initializer::kUniform:
      return FillUniform(random, 0.05, values);
    case Initializer::kOrthogonal:
      return FillOrthogonal(random, shape, values);
    case Initializer::kHeNormal:
      return FillTruncatedNormal(random, std::sqrt(2 / fans.in), values);
  }
}

}  // namespace

void Initialize(const StartValue& start, uint64_t seed, std::string_view name, const Shape& shape, std::span<float> values) {
  TY_CHECK(static_cast<size_t>(shape.elements()) == values.size());
  TY_CHECK(0 <= start.ones_begin && start.ones_begin <= start.ones_end && start.ones_end <= shape.elements());
  Fill(start.initializer, TensorRandom(seed, name), shape, values);
  std::fill(values.begin() + start.ones_begin, values.begin() + start.ones_end, 1.0F);
}

}  // namespace trainyard::engine
