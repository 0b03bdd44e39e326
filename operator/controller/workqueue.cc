#include "operator/controller/workqueue.h"

#include <algorithm>
#include <utility>

#include "operator/base/check.h"

namespace trainyard::control {

WorkQueue::WorkQueue(Clock& clock, const Options& options)
    : clock_(clock),
      backlog_at_once_(static_cast<size_t>(std::max(1, options.backlog_at_once))),
      limiter_(options.base_backoff, options.max_backoff) {}

void WorkQueue::Add(std::string_view key) {
  MutexLock lock(mutex_);
  AddLocked(key, clock_.Monotonic());
}

void WorkQueue::AddLocked(std::string_view key, absl::Duration due) {
  if (shut_down_) return;
  const auto [it, added] = dirty_.emplace(key, due);
  const bool moves_up = in_backlog_.erase(it->first) > 0;
  if ((!added && !moves_up) || processing_.contains(it->first)) return;  // queued already, or will be at Done
  queue_.push_back(it->first);
  changed_.NotifyOne();
}

void WorkQueue::AddToBacklog(std::string_view key) {
  MutexLock lock(mutex_);
  if (shut_down_) return;
  const auto [it, added] = dirty_.emplace(key, clock_.Monotonic());
  if (!added || processing_.contains(it->first)) return;
  in_backlog_.insert(it->first);
  backlog_.push_back(it->first);
  changed_.NotifyOne();
}

void WorkQueue::AddAfter(std::string_view key, absl::Duration delay) {
  MutexLock lock(mutex_);
  if (shut_down_) return;
  const absl::Duration now = clock_.Monotonic();
  if (delay <= absl::ZeroDuration()) {
    AddLocked(key, now);
    return;
  }
  const absl::Duration due = now + delay;
  const auto known = delay_of_.find(std::string(key));
  if (known != delay_of_.end()) {
    if (known->second->first <= due) return;
    delayed_.erase(known->second);
    delay_of_.erase(known);
  }
  const bool earliest = delayed_.empty() || due < delayed_.begin()->first;
  delay_of_[std::string(key)] = delayed_.emplace(due, std::string(key));
  if (earliest) changed_.NotifyOne();  // a thread has to wake earlier than planned
}

void WorkQueue::AddRateLimited(std::string_view key) { AddAfter(key, limiter_.When(key)); }

void WorkQueue::AddRateLimitedAfter(std::string_view key, absl::Duration at_least) {
  AddAfter(key, std::max(limiter_.When(key), at_least));
}

void WorkQueue::Forget(std::string_view key) { limiter_.Forget(key); }

void WorkQueue::MoveDue() {
  const absl::Duration now = clock_.Monotonic();
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const auto first = delayed_.begin();
    AddLocked(first->second, first->first);
    delay_of_.erase(first->second);
    delayed_.erase(first);
  }
}

std::optional<WorkQueue::Item> WorkQueue::Get() {
  MutexLock lock(mutex_);
  while (true) {
    MoveDue();
    if (!queue_.empty() || BacklogIsOpen()) break;
    if (shut_down_) return std::nullopt;
    clock_.WaitUntil(changed_, mutex_, delayed_.empty() ? absl::InfiniteDuration() : delayed_.begin()->first);
  }
  const absl::Duration now = clock_.Monotonic();
  std::string key = TakeNext(now);
  const auto dirty = dirty_.find(key);
  const absl::Duration waited = now - dirty->second;
  dirty_.erase(dirty);
  processing_.insert(key);
  // This thread may be the one that waited for the delayed keys: pass the watch on.
  if (!queue_.empty() || BacklogIsOpen() || !delayed_.empty()) changed_.NotifyOne();
  return Item{std::move(key), waited};
}

bool WorkQueue::BacklogIsOpen() const { return !in_backlog_.empty() && backlog_with_workers_.size() < backlog_at_once_; }

bool WorkQueue::BacklogIsNext(absl::Duration now) {
  if (!BacklogIsOpen()) return false;
  if (queue_.empty() || now - dirty_.find(queue_.front())->second < kPatience) return true;
  return ++taken_before_backlog_ == kBacklogTurn;
}

std::string WorkQueue::TakeNext(absl::Duration now) {
  if (!BacklogIsNext(now)) {
    std::string key = std::move(queue_.front());
    queue_.pop_front();
    return key;
  }
  taken_before_backlog_ = 0;
  while (true) {
    std::string key = std::move(backlog_.front());
    backlog_.pop_front();
    if (in_backlog_.erase(key) == 0) continue;
    backlog_with_workers_.insert(key);
    return key;
  }
}

void WorkQueue::Done(std::string_view key) {
  MutexLock lock(mutex_);
  const auto taken = processing_.find(std::string(key));
  TY_CHECK(taken != processing_.end());
  if (dirty_.contains(*taken)) {
    queue_.push_back(*taken);
    changed_.NotifyOne();
  }
  if (backlog_with_workers_.erase(*taken) > 0 && BacklogIsOpen()) changed_.NotifyOne();
  processing_.erase(taken);
  if (shut_down_ && processing_.empty()) changed_.NotifyAll();
}

void WorkQueue::ShutDown() {
  MutexLock lock(mutex_);
  shut_down_ = true;
  delayed_.clear();
  delay_of_.clear();
  changed_.NotifyAll();
}

bool WorkQueue::ShutDownAndDrain(absl::Duration timeout) {
  ShutDown();
  const absl::Duration deadline = clock_.Monotonic() + timeout;
  MutexLock lock(mutex_);
  while (!processing_.empty() || !queue_.empty() || !in_backlog_.empty()) {
    if (clock_.Monotonic() >= deadline) return false;
    clock_.WaitUntil(changed_, mutex_, deadline);
  }
  return true;
}

size_t WorkQueue::BacklogDepth() const {
  MutexLock lock(mutex_);
  return in_backlog_.size();
}

size_t WorkQueue::Depth() const {
  MutexLock lock(mutex_);
  return queue_.size() + in_backlog_.size();
}

}  // namespace trainyard::control
