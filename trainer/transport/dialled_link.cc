#include "trainer/transport/dialled_link.h"

#include <algorithm>

namespace trainyard::engine {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(10);
constexpr absl::Duration kLongestBackoff = absl::Milliseconds(500);

}  // namespace

bool DialledLink::TakeHeartbeat(absl::Time now) {
  if (!up_ || next_heartbeat_ > now) return false;
  next_heartbeat_ = now + heartbeat_period_;
  return true;
}

absl::Time DialledLink::NextDue() const {
  if (up_) return next_heartbeat_;
  return stream_ == nullptr ? next_dial_ : answer_due_;
}

void DialledLink::Answered(absl::Time now) {
  up_ = true;
  backoff_ = absl::ZeroDuration();
  if (next_heartbeat_ == absl::InfiniteFuture()) next_heartbeat_ = now + heartbeat_period_;
}

bool DialledLink::Lost(const absl::Status& status, absl::Time now) {
  const bool was_up = up_;
  stream_ = nullptr;
  up_ = false;
  last_error_ = status.ok() ? "it closed the stream" : std::string(status.message());
  backoff_ = was_up ? kFirstBackoff : std::clamp(backoff_ * 2, kFirstBackoff, kLongestBackoff);
  next_dial_ = now + backoff_;
  next_heartbeat_ = absl::InfiniteFuture();
  return was_up;
}

}  // namespace trainyard::engine
