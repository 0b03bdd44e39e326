#include "trainer/model/initializer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

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

// Normal (Box, Muller 1958) without what lies beyond two standard deviations; `deviation` is that of the result.
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

const WeightsSpec* WeightsOf(const LayerKind& kind) {
  if (const auto* conv = std::get_if<Conv2dLayer>(&kind)) return &conv->weights;
  if (const auto* dense = std::get_if<DenseLayer>(&kind)) return &dense->weights;
  return nullptr;
}

}  // namespace

void Initialize(Initializer initializer, uint64_t seed, std::string_view name, const Shape& shape, std::span<float> values) {
  TY_CHECK(static_cast<size_t>(shape.elements()) == values.size());
  const Fans fans = FansOf(shape);
  const TensorRandom random(seed, name);
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
    case Initializer::kHeNormal:
      return FillTruncatedNormal(random, std::sqrt(2 / fans.in), values);
  }
}

void InitializeParameters(const ModelSpec& spec, uint64_t seed, ParameterSet& parameters) {
  const auto fill = [&](const std::string& name, Initializer initializer) {
    const int key = parameters.Find(name);
    TY_CHECK(key >= 0);
    Initialize(initializer, seed, name, parameters.spec(key).shape, parameters.values(key));
  };
  for (const LayerSpec& layer : spec.layers) {
    if (std::holds_alternative<BatchNormalizationLayer>(layer.kind)) {
      fill(layer.name + "/gamma", Initializer::kOnes);
      fill(layer.name + "/beta", Initializer::kZeros);
      fill(layer.name + "/moving_mean", Initializer::kZeros);
      fill(layer.name + "/moving_variance", Initializer::kOnes);
    }
    const WeightsSpec* weights = WeightsOf(layer.kind);
    if (weights == nullptr) continue;
    fill(layer.name + "/kernel", weights->kernel_initializer);
    if (weights->use_bias) fill(layer.name + "/bias", weights->bias_initializer);
  }
}

}  // namespace trainyard::engine
