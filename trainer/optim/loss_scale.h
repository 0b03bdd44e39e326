// Dynamic loss scaling, for Precision::kFloat16. P. Micikevicius et al., "Mixed Precision
// Training", 2018, section 3.2. The numbers are those of torch.amp.GradScaler.
//
// float16 holds nothing between 0 and 2^-24, where many gradients lie. So the gradient of the loss
// is multiplied by a scale, and with it all of backward. Gradients are divided by it before they
// are clipped and used. The scale is a power of two, so that it costs no bits.
//
// An overflow is a step whose loss is finite and whose gradients are not, while the scale is above
// 1. The step changes nothing but the scale, which is halved. After many good steps in a row the
// scale is doubled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace trainyard::engine {

inline constexpr float kFirstLossScale = 65536;
inline constexpr float kLargestLossScale = 16777216;  // 2^24

struct LossScaleOptions {
  float first = kFirstLossScale;   // a power of two, from 1 to kLargestLossScale
  int64_t steps_to_double = 2000;  // good ones, in a row
};

// Not thread-safe.
class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options = {}) : steps_to_double_(options.steps_to_double), value_(options.first) {}

  // Of the next step.
  float value() const { return value_; }
  // Steps that have overflowed, since the training began.
  int64_t overflows() const { return overflows_; }

  void OnGoodStep();
  void OnOverflow();
  // The loss is not finite, or a gradient is not although the scale is 1: training.onNonFinite
  // decides. The scale stays, and good steps count anew.
  void OnNotFinite() { good_steps_ = 0; }

  // "65536 17 3": scale, good steps in a row, overflows. For checkpoints.
  std::string ToText() const;
  // Takes over what ToText wrote. InvalidArgument: it is no such text. Then nothing changes.
  absl::Status Restore(std::string_view text);

 private:
  int64_t steps_to_double_;
  float value_;
  int64_t good_steps_ = 0;
  int64_t overflows_ = 0;
};

}  // namespace trainyard::engine
