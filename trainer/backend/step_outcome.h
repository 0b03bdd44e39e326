// What a step came to that was updated on its device.
#pragma once

#include <cstdint>

namespace trainyard::engine {

struct StepOutcome {
  enum class Verdict : uint8_t {
    // The loss is NaN or infinite, and no parameter has changed. Where such steps are left out
    // (DeviceTrainingOptions), a gradient counts too, and the optimizer has seen zeros. So does a
    // gradient in float16 while the loss scale is 1.
    kNotFinite = 0,
    kGood = 1,
    // Of float16: a gradient is not finite while the loss scale is above 1. Nothing has changed.
    kOverflow = 2,
  };
  double loss = 0;
  Verdict verdict = Verdict::kGood;

  bool good() const { return verdict == Verdict::kGood; }
};

}  // namespace trainyard::engine
