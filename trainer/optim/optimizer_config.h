// What a job says of its optimizer (`spec.training.optimizer`), as plain data: it travels from the job file to workers and servers.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::engine {

// How the learning rate changes with the step; `steps` are global steps (updates of the parameters). See lr_schedule.h for the formulas.
struct LrScheduleConfig {
  enum class Kind : uint8_t { kConstant, kStep, kExponential, kCosine };
  Kind kind = Kind::kConstant;
  int64_t decay_steps = 1;   // kStep, kExponential: the period; kCosine: the length of the half wave; >= 1
  double decay_rate = 1.0;   // kStep, kExponential: the factor per period; > 0
  double minimum = 0.0;      // kCosine: the learning rate at the end and after it; >= 0
  int64_t warmup_steps = 0;  // a linear rise from learning_rate / warmup_steps, before the schedule starts; >= 0

  friend bool operator==(const LrScheduleConfig&, const LrScheduleConfig&) = default;
};

// Checked by MakeOptimizer; a field that its optimizer does not read has no effect.
struct OptimizerConfig {
  std::string name = "sgd";  // sgd | momentum | nesterov
  double learning_rate = 0.01;
  double momentum = 0.9;  // momentum, nesterov; in [0, 1)
  LrScheduleConfig schedule;
  double clip_norm = 0.0;  // 0: no clipping; otherwise ClipByGlobalNorm (clip.h) with this norm, by the worker before it pushes

  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

}  // namespace trainyard::engine
