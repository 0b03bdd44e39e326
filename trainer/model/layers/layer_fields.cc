#include "trainer/model/layers/layer_fields.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace trainyard::engine {
namespace {

constexpr Integers kWindow{.min = 1, .max = 1024};

}  // namespace

LayerActivation ReadActivation(FieldReader& fields, std::string_view name, std::optional<LayerActivation> fallback) {
  std::vector<std::pair<std::string_view, LayerActivation>> choices = {{"linear", {Activation::kIdentity}}};
  VisitActivations([&]<Activation kActivation>() { choices.push_back({ActivationRow<kActivation>::kName, {kActivation}}); });
  choices.push_back({"softmax", {.softmax = true}});
  return fields.Choice<LayerActivation>(name, choices, fallback);
}

Initializer ReadInitializer(FieldReader& fields, std::string_view name, Initializer fallback) {
  return fields.Choice<Initializer>(name,
                                    {{"glorotUniform", Initializer::kGlorotUniform},
                                     {"glorotNormal", Initializer::kGlorotNormal},
                                     {"heUniform", Initializer::kHeUniform},
                                     {"heNormal", Initializer::kHeNormal},
                                     {"uniform", Initializer::kUniform},
                                     {"orthogonal", Initializer::kOrthogonal},
                                     {"zeros", Initializer::kZeros},
                                     {"ones", Initializer::kOnes}},
                                    fallback);
}

WeightsSpec ReadWeights(FieldReader& fields) {
  WeightsSpec weights;
  weights.use_bias = fields.Bool("useBias", true);
  weights.kernel_initializer = ReadInitializer(fields, "kernelInitializer", weights.kernel_initializer);
  weights.bias_initializer = ReadInitializer(fields, "biasInitializer", weights.bias_initializer);
  if (const nlohmann::json* regularizer = fields.Get("kernelRegularizer")) {
    FieldReader penalty = fields.Inside("kernelRegularizer", *regularizer);
    weights.kernel_l2 = penalty.Number("l2", {.min = 0, .max = 1e6});
    penalty.RefuseOthers();
  }
  return weights;
}

std::array<int32_t, 2> ReadPair(FieldReader& fields, std::string_view name, std::optional<std::array<int32_t, 2>> fallback) {
  const nlohmann::json* value = fields.Get(name);
  if (value == nullptr && fallback.has_value()) return *fallback;
  if (value != nullptr && value->is_array()) {
    const std::vector<int64_t> pair = fields.IntegerList(name, kWindow, 2, 2);
    if (pair.size() != 2) return {1, 1};
    return {static_cast<int32_t>(pair[0]), static_cast<int32_t>(pair[1])};
  }
  const auto size = static_cast<int32_t>(fields.Integer(name, kWindow));
  return {size, size};
}

Padding ReadPadding(FieldReader& fields) {
  return fields.Choice<Padding>("padding", {{"valid", Padding::kValid}, {"same", Padding::kSame}}, Padding::kValid);
}

}  // namespace trainyard::engine
