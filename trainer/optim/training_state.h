// The state from which a training goes on: parameters, optimizer slots and step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/base/input_origin.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Values, optimizer slots (one set per slot name, in the optimizer's order) and the number of
// global steps.
struct TrainingState {
  ParameterSet parameters;
  std::vector<ParameterSet> slots;
  int64_t step = 0;
  InputOrigin origin = {};
};

// The same without a copy: checkpoints are written from it.
struct StateView {
  StateView(const ParameterSet& parameters_at, std::span<const ParameterSet> slots_at, int64_t step_at)
      : parameters(parameters_at), slots(slots_at), step(step_at) {}
  StateView(const TrainingState& state)  // NOLINT(google-explicit-constructor): a state is seen where it stands
      : StateView(state.parameters, state.slots, state.step) {}

  const ParameterSet& parameters;
  std::span<const ParameterSet> slots;
  int64_t step;
};

}  // namespace trainyard::engine
