#include "trainer/optim/optimizer_settings.h"

#include <fmt/format.h>

namespace trainyard::engine {

JobSettings OptimizerSettings(const OptimizerConfig& optimizer) {
  const LrScheduleConfig& schedule = optimizer.schedule;
  return {{"optimizer.name", optimizer.name},
          {"optimizer.learningRate", fmt::to_string(optimizer.learning_rate)},
          {"optimizer.momentum", fmt::to_string(optimizer.momentum)},
          {"optimizer.rho", fmt::to_string(optimizer.rho)},
          {"optimizer.beta1", fmt::to_string(optimizer.beta1)},
          {"optimizer.beta2", fmt::to_string(optimizer.beta2)},
          {"optimizer.epsilon", fmt::to_string(optimizer.epsilon)},
          {"optimizer.initialAccumulator", fmt::to_string(optimizer.initial_accumulator)},
          {"optimizer.weightDecay", fmt::to_string(optimizer.weight_decay)},
          {"optimizer.clipNorm", fmt::to_string(optimizer.clip_norm)},
          {"optimizer.schedule",
           fmt::format("kind {}, decaySteps {}, decayRate {}, minimum {}, holdSteps {}, warmupSteps {}", static_cast<int>(schedule.kind),
                       schedule.decay_steps, schedule.decay_rate, schedule.minimum, schedule.hold_steps, schedule.warmup_steps)}};
}

}  // namespace trainyard::engine
