// The optimizers that a job file can name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/optimizer_config.h"

namespace trainyard::engine {

// InvalidArgument names the field, as `optimizer.momentum`, what was found and what is expected.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const OptimizerConfig& config);

// Keras' defaults for the optimizer `name`; those of OptimizerConfig for an unknown one.
OptimizerConfig DefaultOptimizerConfig(std::string_view name);

// The names that MakeOptimizer knows, in the order of the documentation.
std::span<const std::string_view> OptimizerNames();

}  // namespace trainyard::engine
