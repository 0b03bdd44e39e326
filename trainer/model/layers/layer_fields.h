// Fields that several kinds of layer have, with Keras' words and Keras' defaults.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "trainer/config/field_reader.h"
#include "trainer/graph/op.h"
#include "trainer/model/layers/start_value.h"

namespace trainyard::engine {

// `activation:` of a layer: a function of the table in graph/activation.h, or softmax, which is an
// op of its own.
struct LayerActivation {
  Activation function = Activation::kIdentity;
  bool softmax = false;
};

struct WeightsSpec {
  bool use_bias = true;
  Initializer kernel_initializer = Initializer::kGlorotUniform;
  Initializer bias_initializer = Initializer::kZeros;
  double kernel_l2 = 0;  // kernelRegularizer: l2 * the sum of the kernel's squares is part of the loss; 0: none
};

// Large enough for every network, small enough that products of a few of them stay far from
// overflow.
inline constexpr Integers kChannels{.min = 1, .max = 65536};
inline constexpr Integers kUnits{.min = 1, .max = 1 << 24};

LayerActivation ReadActivation(FieldReader& fields, std::string_view name, std::optional<LayerActivation> fallback);
Initializer ReadInitializer(FieldReader& fields, std::string_view name, Initializer fallback);
// useBias, kernelInitializer, biasInitializer, kernelRegularizer.
WeightsSpec ReadWeights(FieldReader& fields);
// A size of height and width: 5 or [5, 3].
std::array<int32_t, 2> ReadPair(FieldReader& fields, std::string_view name, std::optional<std::array<int32_t, 2>> fallback);
// padding: valid or same.
Padding ReadPadding(FieldReader& fields);

}  // namespace trainyard::engine
