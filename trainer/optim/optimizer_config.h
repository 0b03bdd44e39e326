// A job's optimizer (`spec.training.optimizer`) as plain data: it travels from the job file to
// workers and servers.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::engine {

// How the learning rate changes with the step; `steps` are global steps (updates of the
// parameters). See lr_schedule.h for the formulas.
struct LrScheduleConfig {
  enum class Kind : uint8_t { kConstant, kStep, kExponential, kCosine };
  Kind kind = Kind::kConstant;
  int64_t decay_steps = 1;   // kStep, kExponential: the period; kCosine: the length of the half wave; >= 1
  double decay_rate = 1.0;   // kStep, kExponential: the factor per period; > 0
  double minimum = 0.0;      // kCosine: the learning rate at the end and after it; >= 0
  int64_t hold_steps = 0;    // learning_rate stays as it is for so many steps, before the schedule starts; >= 0
  int64_t warmup_steps = 0;  // a linear rise from learning_rate / warmup_steps, before all else; >= 0

  friend bool operator==(const LrScheduleConfig&, const LrScheduleConfig&) = default;
};

// The learning rate of a gradient whose values were `staleness` updates old (asynchronous jobs).
enum class StalenessRule : uint8_t {
  kPlain,  // stays as it is
  kAdapt,  // is divided by 1 + staleness
};

// Checked by MakeOptimizer. Defaults that differ from optimizer to optimizer (Keras') are given by
// DefaultOptimizerConfig in make_optimizer.h. A field that its optimizer does not read has no
// effect.
struct OptimizerConfig {
  std::string name = "sgd";  // sgd | momentum | nesterov | adagrad | adadelta | rmsprop | adam | adamw
  double learning_rate = 0.01;
  double momentum = 0.9;             // momentum, nesterov, rmsprop; in [0, 1)
  double rho = 0.9;                  // adadelta, rmsprop: decay of the mean of squares; in [0, 1)
  double beta1 = 0.9;                // adam, adamw: decay of the mean of gradients; in [0, 1)
  double beta2 = 0.999;              // adam, adamw: decay of the mean of squares; in [0, 1)
  double epsilon = 1e-7;             // adagrad, adadelta, rmsprop, adam, adamw; > 0
  double initial_accumulator = 0.1;  // adagrad: start of its sum of squares; >= 0
  double weight_decay = 0.0;  // every optimizer: parameters shrink by learning rate * weight_decay before each update (decoupled); >= 0
  LrScheduleConfig schedule;
  StalenessRule staleness = StalenessRule::kPlain;
  double clip_norm = 0.0;  // 0: no clipping; otherwise ClipByGlobalNorm (clip.h) with this norm, by the worker before it pushes

  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

}  // namespace trainyard::engine
