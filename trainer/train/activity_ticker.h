// Tells others that this replica is at work although it does not push: it waits for input, writes,
// evaluates or loads, for minutes perhaps.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "trainer/base/notification.h"

namespace trainyard::engine {

// Owns the thread that tells, and joins it. Thread-safe.
class ActivityTicker {
 public:
  // While any Work lives, `tell` is called every `period`, from the ticker's thread.
  explicit ActivityTicker(std::function<void()> tell, absl::Duration period = absl::Seconds(1));
  ~ActivityTicker();
  ActivityTicker(const ActivityTicker&) = delete;
  ActivityTicker& operator=(const ActivityTicker&) = delete;

  // Cheap enough for every step: no lock, no system call.
  class Work {
   public:
    explicit Work(ActivityTicker& ticker) : ticker_(ticker) { ticker_.works_.fetch_add(1, std::memory_order_relaxed); }
    ~Work() { ticker_.works_.fetch_sub(1, std::memory_order_relaxed); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    ActivityTicker& ticker_;
  };

 private:
  std::atomic<int> works_ = 0;
  Notification ending_;
  std::thread thread_;
};

}  // namespace trainyard::engine
