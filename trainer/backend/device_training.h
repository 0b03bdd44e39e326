// A training that stays in a device's memory: parameters, optimizer slots, and the results of the
// step in hand.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/device_parameters.h"
#include "trainer/backend/step_outcome.h"
#include "trainer/optim/optimizer.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Executors that are given it (ExecutorOptions) leave the results of a step in it, too: a gradient
// for each trainable parameter, times the step's loss scale, and the next value for each other. Its
// owner calls BeginStep, then Executor::Train, which calls the rest. In a group (device_group.h)
// the owner calls the group's BeginStep, and what follows Train too.
class DeviceTraining : public DeviceParameters {
 public:
  // The address in the device's memory of row-major f32.
  virtual void* result(int key) = 0;
  // Device → host, behind all work given so far.
  virtual absl::Status FetchResults(ParameterSet& results) = 0;

  // Before a step's kernels: its learning rate, and how many steps were before it.
  virtual absl::Status BeginStep(const UpdateContext& context) = 0;
  // Starts the update, behind the step's kernels: clips, and applies the optimizer, which in a
  // group is left to DeviceGroup::Update. `loss` is the step's in the device's memory.
  virtual void Update(const void* loss) = 0;
  // The result of `key` lies at `value`: it is copied to its place.
  virtual void Take(int key, const void* value) = 0;
  // Where Update leaves the outcome: kOutcomeFloats, which OutcomeOf reads.
  static constexpr int64_t kOutcomeFloats = 2;
  virtual const void* outcome() const = 0;
  static StepOutcome OutcomeOf(std::span<const float> values) {
    return {.loss = values[0], .verdict = static_cast<StepOutcome::Verdict>(values[1])};
  }
};

}  // namespace trainyard::engine
