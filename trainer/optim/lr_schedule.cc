#include "trainer/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trainer/base/check.h"

namespace trainyard::engine {

namespace {

double ScheduledRate(const OptimizerConfig& config, int64_t step) {
  const LrScheduleConfig& schedule = config.schedule;
  const double rate = config.learning_rate;
  TY_CHECK(step >= 0 && schedule.decay_steps >= 1);
  if (step < schedule.warmup_steps) return rate * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  step = std::max<int64_t>(0, step - schedule.warmup_steps - schedule.hold_steps);
  switch (schedule.kind) {
    case LrScheduleConfig::Kind::kConstant:
      return rate;
    case LrScheduleConfig::Kind::kStep: {
      const int64_t whole_periods = step / schedule.decay_steps;
      return rate * std::pow(schedule.decay_rate, static_cast<double>(whole_periods));
    }
    case LrScheduleConfig::Kind::kExponential:
      return rate * std::pow(schedule.decay_rate, static_cast<double>(step) / static_cast<double>(schedule.decay_steps));
    case LrScheduleConfig::Kind::kCosine: {
      const double share = static_cast<double>(std::min(step, schedule.decay_steps)) / static_cast<double>(schedule.decay_steps);
      return schedule.minimum + (rate - schedule.minimum) * (1 + std::cos(std::numbers::pi * share)) / 2;
    }
  }
  return rate;
}

}  // namespace

double LearningRateAt(const OptimizerConfig& config, int64_t step, int64_t staleness) {
  TY_CHECK(staleness >= 0);
  const double rate = ScheduledRate(config, step);
  return config.staleness == StalenessRule::kAdapt ? rate / static_cast<double>(1 + staleness) : rate;
}

}  // namespace trainyard::engine
