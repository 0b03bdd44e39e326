#include "operator/kube/watchdog.h"

#include <algorithm>
#include <utility>

namespace trainyard::control {
namespace {
constexpr absl::Duration kAgain = absl::Milliseconds(50);
}

Watchdog::Watchdog(Clock& clock) : clock_(clock), thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

Watchdog::Guard::Guard(Watchdog& watchdog, absl::Duration deadline, std::stop_token stop, std::function<void()> interrupt)
    : watchdog_(watchdog),
      id_(watchdog.Add(deadline, std::move(interrupt))),
      on_stop_(std::move(stop), std::function<void()>([this] { watchdog_.Hurry(id_); })) {}

Watchdog::Guard::~Guard() { watchdog_.Remove(id_); }

uint64_t Watchdog::Add(absl::Duration deadline, std::function<void()> interrupt) {
  MutexLock lock(mutex_);
  watched_.emplace(next_id_, Watched{deadline, std::move(interrupt)});
  if (deadline < wake_at_) changed_.NotifyAll();
  return next_id_++;
}

void Watchdog::Hurry(uint64_t id) {
  MutexLock lock(mutex_);
  const auto it = watched_.find(id);
  if (it == watched_.end()) return;
  it->second.due = -absl::InfiniteDuration();
  changed_.NotifyAll();
}

void Watchdog::Remove(uint64_t id) {
  MutexLock lock(mutex_);
  watched_.erase(id);
}

void Watchdog::Run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const absl::Duration now = clock_.Monotonic();
    wake_at_ = absl::InfiniteDuration();
    for (auto& [id, watched] : watched_) {
      if (watched.due <= now) {
        watched.interrupt();
        watched.due = now + kAgain;
      }
      wake_at_ = std::min(wake_at_, watched.due);
    }
    clock_.WaitUntil(changed_, mutex_, wake_at_);
  }
}

}  // namespace trainyard::control
