#include "trainer/train/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/report/number_text.h"
#include "trainer/tensor/finite.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kAdvice =
    "lower optimizer.learningRate, set optimizer.clipNorm, or leave such steps out with training.onNonFinite: skip";

bool BatchIsFinite(const Batch& batch) {
  const auto finite = [](const Tensor& tensor) { return tensor.dtype != DType::kF32 || AllFinite(tensor.values<float>()); };
  return finite(batch.x) && finite(batch.y);
}

}  // namespace

std::optional<std::string> FindNotFinite(double loss, const ParameterSet* gradients) {
  if (!std::isfinite(loss)) return "loss is " + NumberText(loss);
  if (gradients == nullptr) return std::nullopt;
  const std::string tensor = FirstNotFinite(*gradients);
  if (tensor.empty()) return std::nullopt;
  return fmt::format("the gradient of '{}' is not finite", tensor);
}

absl::Status NotFiniteError(std::string_view found, const StepPlace& place, const Batch& batch) {
  if (!BatchIsFinite(batch)) {
    return absl::FailedPreconditionError(
        fmt::format("{} at step {}, {}: its batch holds a value that is NaN or infinite; mend the data, or leave such steps out with "
                    "training.onNonFinite: skip",
                    found, place.step, place.replica));
  }
  return absl::FailedPreconditionError(
      fmt::format("{} at step {}, {}; learning rate {:g}; {}", found, place.step, place.replica, place.learning_rate, kAdvice));
}

void Neutralize(const ParameterSet& parameters, ParameterSet& gradients) {
  for (int key = 0; key < gradients.size(); ++key) {
    if (gradients.spec(key).trainable) {
      std::ranges::fill(gradients.values(key), 0.0F);
    } else {
      std::ranges::copy(parameters.values(key), gradients.values(key).begin());
    }
  }
}

absl::Status CheckFinite(const StateView& state, std::string_view what) {
  const auto refuse = [&](std::string_view set, const std::string& tensor) {
    return absl::FailedPreconditionError(
        fmt::format("no {} of step {}: {} '{}' has values that are NaN or infinite, the training has diverged; {}", what, state.step, set,
                    tensor, kAdvice));
  };
  if (const std::string tensor = FirstNotFinite(state.parameters); !tensor.empty()) return refuse("parameter", tensor);
  for (const ParameterSet& slot : state.slots) {
    if (const std::string tensor = FirstNotFinite(slot); !tensor.empty()) return refuse("the optimizer's slot of", tensor);
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
