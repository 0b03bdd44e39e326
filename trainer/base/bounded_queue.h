// A first-in first-out queue with a bound, between threads. Push waits while it is full, Pop while
// it is empty, both at most for a given time.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "trainer/base/check.h"
#include "trainer/base/mutex.h"

namespace trainyard::engine {

// Thread-safe. After Close(): Push refuses, Pop drains what is left and then returns nothing.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) { TY_CHECK(capacity > 0); }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // False when the queue was closed or stayed full for `at_most`; the item is then dropped.
  bool Push(T item, absl::Duration at_most = absl::InfiniteDuration()) {
    MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &BoundedQueue::CanPush), at_most);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    return true;
  }

  // Nothing when the queue is closed and drained, or stayed empty for `at_most`.
  std::optional<T> Pop(absl::Duration at_most = absl::InfiniteDuration()) {
    MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &BoundedQueue::CanPop), at_most);
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  void Close() {
    MutexLock lock(&mutex_);
    closed_ = true;
  }

  size_t size() const {
    MutexLock lock(&mutex_);
    return items_.size();
  }

 private:
  bool CanPush() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || items_.size() < capacity_; }
  bool CanPop() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !items_.empty(); }

  const size_t capacity_;
  mutable Mutex mutex_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace trainyard::engine
