#include "trainer/optim/loss_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace trainyard::engine {

void LossScale::OnGoodStep() {
  if (++good_steps_ < steps_to_double_) return;
  good_steps_ = 0;
  value_ = std::min(2 * value_, kLargestLossScale);
}

void LossScale::OnOverflow() {
  good_steps_ = 0;
  ++overflows_;
  value_ = std::max(value_ / 2, 1.0F);
}

std::string LossScale::ToText() const { return fmt::format("{} {} {}", value_, good_steps_, overflows_); }

absl::Status LossScale::Restore(std::string_view text) {
  std::istringstream words{std::string(text)};
  float value = 0;
  int64_t good_steps = 0;
  int64_t overflows = 0;
  words >> value >> good_steps >> overflows;
  const bool read = !words.fail() && words.eof();
  int exponent = 0;
  const bool power = read && value >= 1 && value <= kLargestLossScale && std::frexp(value, &exponent) == 0.5F;
  if (!power || good_steps < 0 || overflows < 0) {
    return absl::InvalidArgumentError(
        fmt::format("lossScale is '{}', expected a power of two, good steps in a row and overflows, such as '65536 17 3'", text));
  }
  value_ = value;
  good_steps_ = good_steps;
  overflows_ = overflows;
  return absl::OkStatus();
}

}  // namespace trainyard::engine
