// A step whose loss or gradient is NaN or infinite: how it is found, and what is said of it.
//
// The loss is looked at in every step, which costs nothing. A gradient that is not finite makes the
// next step's loss NaN, since the loss depends on every parameter that it changed. So gradients are
// looked at only where they must not leave (onNonFinite: skip). Parameters are looked at before
// they are written down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "trainer/data/batch.h"
#include "trainer/optim/training_state.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// "loss is NaN", "the gradient of 'conv1/kernel' is not finite"; nothing where all is well.
// `gradients`: null: not looked at.
std::optional<std::string> FindNotFinite(double loss, const ParameterSet* gradients);

// Where it was found.
struct StepPlace {
  std::string replica;  // "worker-1"
  int64_t step = 0;     // of that replica
  double learning_rate = 0;
};

// FailedPrecondition: "loss is NaN at step 12, worker-1; learning rate 1e+06; lower
// optimizer.learningRate …". Names the data where `batch` itself holds a value that is not finite.
absl::Status NotFiniteError(std::string_view found, const StepPlace& place, const Batch& batch);

// Makes the step change nothing: gradients become 0, next values of what is not trainable those of
// `parameters`.
void Neutralize(const ParameterSet& parameters, ParameterSet& gradients);

// FailedPrecondition names the first tensor of parameters or slots that is not finite, and `what`
// is not done with it: "checkpoint".
absl::Status CheckFinite(const StateView& state, std::string_view what);

}  // namespace trainyard::engine
