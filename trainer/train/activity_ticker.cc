#include "trainer/train/activity_ticker.h"

#include <utility>

namespace trainyard::engine {

ActivityTicker::ActivityTicker(std::function<void()> tell, absl::Duration period)
    : thread_([this, tell = std::move(tell), period] {
        while (!ending_.WaitForNotificationWithTimeout(period)) {
          if (works_.load(std::memory_order_relaxed) > 0) tell();
        }
      }) {}

ActivityTicker::~ActivityTicker() {
  ending_.Notify();
  thread_.join();
}

}  // namespace trainyard::engine
