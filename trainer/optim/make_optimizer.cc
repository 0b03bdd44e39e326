#include "trainer/optim/make_optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/optim/adaptive.h"
#include "trainer/optim/sgd.h"
#include "trainer/optim/weight_decay.h"

namespace trainyard::engine {
namespace {

struct Rule {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerConfig&);
  void (*set_defaults)(OptimizerConfig&);  // Keras', where they are not OptimizerConfig's own
};

constexpr double kAdaptiveLearningRate = 0.001;

constexpr std::array kRules{
    Rule{"sgd", [](const OptimizerConfig&) { return MakeSgd(); }, [](OptimizerConfig&) {}},
    Rule{"momentum", [](const OptimizerConfig& config) { return MakeMomentum(config.momentum, /*nesterov=*/false); },
         [](OptimizerConfig&) {}},
    Rule{"nesterov", [](const OptimizerConfig& config) { return MakeMomentum(config.momentum, /*nesterov=*/true); },
         [](OptimizerConfig&) {}},
    Rule{"adagrad", [](const OptimizerConfig& config) { return MakeAdagrad(config.initial_accumulator, config.epsilon); },
         [](OptimizerConfig& config) { config.learning_rate = kAdaptiveLearningRate; }},
    Rule{"adadelta", [](const OptimizerConfig& config) { return MakeAdadelta(config.rho, config.epsilon); },
         [](OptimizerConfig& config) {
           config.learning_rate = kAdaptiveLearningRate;
           config.rho = 0.95;
         }},
    Rule{"rmsprop", [](const OptimizerConfig& config) { return MakeRmsprop(config.rho, config.momentum, config.epsilon); },
         [](OptimizerConfig& config) {
           config.learning_rate = kAdaptiveLearningRate;
           config.momentum = 0;
         }},
    Rule{"adam", [](const OptimizerConfig& config) { return MakeAdam(config.beta1, config.beta2, config.epsilon); },
         [](OptimizerConfig& config) { config.learning_rate = kAdaptiveLearningRate; }},
    Rule{"adamw", [](const OptimizerConfig& config) { return MakeAdam(config.beta1, config.beta2, config.epsilon); },
         [](OptimizerConfig& config) {
           config.learning_rate = kAdaptiveLearningRate;
           config.weight_decay = 0.004;
         }},
};

const Rule* FindRule(std::string_view name) {
  const auto* rule = std::ranges::find(kRules, name, &Rule::name);
  return rule == kRules.end() ? nullptr : rule;
}

constexpr auto kNames = [] {
  std::array<std::string_view, kRules.size()> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = kRules[i].name;
  return names;
}();

// `ok` is false for NaN too, as every comparison with it is.
absl::Status Expect(bool ok, std::string_view field, double found, std::string_view expected) {
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("optimizer.{}: found {}, expected {}", field, found, expected));
}

absl::Status ExpectShare(double value, std::string_view field) {
  return Expect(value >= 0 && value < 1, field, value, "a number from 0 to below 1");
}

absl::Status Check(const OptimizerConfig& config) {
  TY_RETURN_IF_ERROR(
      Expect(config.learning_rate > 0 && std::isfinite(config.learning_rate), "learningRate", config.learning_rate, "a number above 0"));
  TY_RETURN_IF_ERROR(ExpectShare(config.momentum, "momentum"));
  TY_RETURN_IF_ERROR(ExpectShare(config.rho, "rho"));
  TY_RETURN_IF_ERROR(ExpectShare(config.beta1, "beta1"));
  TY_RETURN_IF_ERROR(ExpectShare(config.beta2, "beta2"));
  TY_RETURN_IF_ERROR(Expect(config.epsilon > 0 && std::isfinite(config.epsilon), "epsilon", config.epsilon, "a number above 0"));
  TY_RETURN_IF_ERROR(Expect(config.initial_accumulator >= 0 && std::isfinite(config.initial_accumulator), "initialAccumulator",
                            config.initial_accumulator, "a number >= 0"));
  return Expect(config.weight_decay >= 0 && std::isfinite(config.weight_decay), "weightDecay", config.weight_decay, "a number >= 0");
}

}  // namespace

std::span<const std::string_view> OptimizerNames() { return kNames; }

OptimizerConfig DefaultOptimizerConfig(std::string_view name) {
  OptimizerConfig config;
  config.name = name;
  if (const Rule* rule = FindRule(name)) rule->set_defaults(config);
  return config;
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const OptimizerConfig& config) {
  const Rule* rule = FindRule(config.name);
  if (rule == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("optimizer.name: found \"{}\", expected one of {}", config.name, fmt::join(OptimizerNames(), ", ")));
  }
  TY_RETURN_IF_ERROR(Check(config));
  std::unique_ptr<Optimizer> optimizer = rule->make(config);
  if (config.weight_decay == 0) return optimizer;
  return MakeWeightDecay(config.weight_decay, std::move(optimizer));
}

}  // namespace trainyard::engine
