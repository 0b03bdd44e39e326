#include "trainer/optim/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/base/status_macros.h"
#include "trainer/optim/sgd.h"

namespace trainyard::engine {
namespace {

struct Rule {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerConfig&);
};

constexpr std::array kRules{
    Rule{"sgd", [](const OptimizerConfig&) { return MakeSgd(); }},
    Rule{"momentum", [](const OptimizerConfig& config) { return MakeMomentum(config.momentum, /*nesterov=*/false); }},
    Rule{"nesterov", [](const OptimizerConfig& config) { return MakeMomentum(config.momentum, /*nesterov=*/true); }},
};

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

}  // namespace

std::span<const std::string_view> OptimizerNames() { return kNames; }

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const OptimizerConfig& config) {
  const auto* rule = std::ranges::find(kRules, std::string_view(config.name), &Rule::name);
  if (rule == kRules.end()) {
    return absl::InvalidArgumentError(
        fmt::format("optimizer.name: found \"{}\", expected one of {}", config.name, fmt::join(OptimizerNames(), ", ")));
  }
  TY_RETURN_IF_ERROR(
      Expect(config.learning_rate > 0 && std::isfinite(config.learning_rate), "learningRate", config.learning_rate, "a number above 0"));
  TY_RETURN_IF_ERROR(Expect(config.momentum >= 0 && config.momentum < 1, "momentum", config.momentum, "a number from 0 to below 1"));
  return rule->make(config);
}

}  // namespace trainyard::engine
