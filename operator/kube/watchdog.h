// Watchdog: ends what a library's blocking call cannot end itself: a request past its deadline, or one whose caller wants to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. One thread, asleep until the earliest deadline.
class Watchdog {
 public:
  explicit Watchdog(Clock& clock);
  ~Watchdog();

  // While it lives, `interrupt` is called from the watchdog's thread once `deadline` has passed or `stop` was asked for, and again each 50
  // ms, since a call may not have reached the point at which it can be interrupted. Never called after the destructor.
  class Guard {
   public:
    Guard(Watchdog& watchdog, absl::Duration deadline, std::stop_token stop, std::function<void()> interrupt);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Watchdog& watchdog_;
    const uint64_t id_;
    const std::stop_callback<std::function<void()>> on_stop_;
  };

 private:
  struct Watched {
    absl::Duration due;
    std::function<void()> interrupt;
  };

  uint64_t Add(absl::Duration deadline, std::function<void()> interrupt);
  void Hurry(uint64_t id);
  void Remove(uint64_t id);
  void Run();

  Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, Watched> watched_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration wake_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace trainyard::control
