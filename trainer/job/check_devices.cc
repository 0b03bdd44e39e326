#include "trainer/job/check_devices.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>

#include "trainer/job/strategy_roles.h"

namespace trainyard::engine {

std::string WrongDevices(const TrainingConfig& config, int workers) {
  const StrategyConfig& strategy = config.strategy;
  const bool alone = workers <= 1 || !RolesOf(strategy.kind).many_trainers;
  const bool async = strategy.kind == StrategyConfig::Kind::kParameterServer && strategy.mode == StrategyConfig::Mode::kAsync;
  if (alone || async) return "";
  const auto devices = static_cast<unsigned>(config.devices);
  if (!std::has_single_bit(devices)) {
    return fmt::format(
        "found {}, expected a power of two, such as {} or {}, because {} workers add their gradients: the sum over a worker's devices "
        "must be a part of the one order of sums (docs/collectives.md)",
        devices, std::bit_floor(devices), std::bit_ceil(devices), workers);
  }
  if (static_cast<int64_t>(devices) * workers > kMostDevicesOfJob) {
    return fmt::format("found {}, expected at most {}, because {} workers have {} devices together at most", devices,
                       kMostDevicesOfJob / workers, workers, kMostDevicesOfJob);
  }
  return "";
}

absl::Status CheckDevices(const TrainingConfig& config, int workers) {
  const std::string wrong = WrongDevices(config, workers);
  return wrong.empty() ? absl::OkStatus() : absl::InvalidArgumentError("spec.training.devices: " + wrong);
}

}  // namespace trainyard::engine
