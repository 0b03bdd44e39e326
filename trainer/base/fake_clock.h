// A clock that tests move by hand.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"

namespace trainyard::engine {

// Thread-safe. Advance() moves both kinds of time; JumpWall() moves the time of day alone, as an
// administrator or NTP does.
class FakeClock final : public Clock {
 public:
  absl::Time Now() override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  absl::Time Wall() override {
    absl::MutexLock lock(&mutex_);
    return wall_;
  }
  void Advance(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    now_ += duration;
    wall_ += duration;
  }
  void JumpWall(absl::Duration by) {
    absl::MutexLock lock(&mutex_);
    wall_ += by;
  }

 private:
  absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch() + absl::Seconds(1000);
  absl::Time wall_ ABSL_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1700000000);
};

}  // namespace trainyard::engine
