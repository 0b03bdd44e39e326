// The learning rate of a step.
#pragma once

#include <cstdint>

#include "trainer/optim/optimizer_config.h"

namespace trainyard::engine {

// The learning rate for the update number `step` (0 for the first), from config.learning_rate = lr
// and config.schedule:
//   warm-up      step < w:  lr * (step + 1) / w, w = warmup_steps; then lr for hold_steps, then the schedule below runs from its step 0
//   constant     lr
//   step         lr * decay_rate ^ floor(step / decay_steps)
//   exponential  lr * decay_rate ^ (step / decay_steps)                                        Keras' ExponentialDecay
//   cosine       minimum + (lr - minimum) * (1 + cos(pi * min(step, decay_steps) / decay_steps)) / 2
//                SGDR (Loshchilov, Hutter 2017), no restart
// With StalenessRule::kAdapt the rate is divided by 1 + `staleness`. So the updates that start from
// one version of the values move together as far as one synchronous step with their mean. (Zhang,
// Gupta, Lian, Liu 2016, "Staleness-aware Async-SGD for Distributed Deep Learning", divides by the
// staleness and leaves 0 and 1 alone.)
// A pure function: every replica and every resumed run gets the same value.
double LearningRateAt(const OptimizerConfig& config, int64_t step, int64_t staleness = 0);

}  // namespace trainyard::engine
