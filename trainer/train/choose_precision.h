// `precision: auto`: both precisions run a few steps of the job's model, and the faster one stays.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/job/training_config.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine {

struct PrecisionChoice {
  Precision precision = Precision::kFloat32;
  std::string reason;  // "": the job names the precision
};

// How long one step took on the kernels of one precision.
struct PrecisionTrial {
  std::string kernels;
  double seconds = 0;
};

// bfloat16 where its step is at least 5 % shorter: less would be noise, and float32 is more exact.
PrecisionChoice DecidePrecision(const PrecisionTrial& float32, const PrecisionTrial& bfloat16);

using BackendOfPrecision = std::function<absl::StatusOr<std::unique_ptr<Backend>>(Precision)>;

// What `config` names, or what a measurement of forward and backward passes over made-up examples
// says. Each precision runs in two turns of a first step and then steps for half a second, at least
// one and at most 20; the shortest counts. `stop` is asked between steps. Where bfloat16 has no
// kernels of its own, nothing is measured. Errors: those of the model and of the backends.
absl::StatusOr<PrecisionChoice> ChoosePrecision(const TrainingConfig& config, const BackendOfPrecision& make_backend,
                                                const std::function<bool()>& stop);

}  // namespace trainyard::engine
