// WorkQueue: which keys are to be looked at, with client-go's guarantees.
#pragma once

#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/controller/rate_limiter.h"

namespace trainyard::control {

// Thread-safe. Guarantees:
// - fair: keys are handed out in the order in which they were added. Keys of the backlog come only
//   while no other key has waited for kPatience, and at least every kBacklogTurn-th time. Workers
//   have at most Options::backlog_at_once of them at the same time;
//  - stingy: a key added many times before it is handed out is handed out once;
//  - one at a time: a key is never with two workers at once;
//  - not forgotten: a key added while a worker has it is handed out again after Done.
// Delayed keys are kept beside the queue; the earliest of several delays of a key wins. Waits
// follow Clock::Monotonic().
class WorkQueue {
 public:
  static constexpr absl::Duration kPatience = absl::Milliseconds(500);
  static constexpr int kBacklogTurn = 8;

  struct Options {
    absl::Duration base_backoff = absl::Milliseconds(5);
    absl::Duration max_backoff = absl::Minutes(5);
    int backlog_at_once = std::numeric_limits<int>::max();  // at least 1
  };
  explicit WorkQueue(Clock& clock) : WorkQueue(clock, Options()) {}
  WorkQueue(Clock& clock, const Options& options);

  void Add(std::string_view key);
  // As Add, for much work at once. Backlog keys run only while no other key has waited for
  // kPatience, and at least every kBacklogTurn-th time. A later Add moves the key up.
  void AddToBacklog(std::string_view key);
  void AddAfter(std::string_view key, absl::Duration delay);
  // After the key's backoff, which doubles each time until Forget.
  void AddRateLimited(std::string_view key);
  // The same, but not before `at_least` from now.
  void AddRateLimitedAfter(std::string_view key, absl::Duration at_least);
  void Forget(std::string_view key);
  int Failures(std::string_view key) const { return limiter_.Failures(key); }

  struct Item {
    std::string key;
    absl::Duration waited;  // since it was added and due
  };
  // Waits for a key; nothing once the queue is shut down and drained. Every key taken needs one
  // Done.
  std::optional<Item> Get();
  void Done(std::string_view key);

  // No key comes in any more, delayed keys are dropped; Get hands out what is queued, then nothing.
  void ShutDown();
  // ShutDown, then waits until every key that was handed out is done. False when that took longer
  // than `timeout`.
  bool ShutDownAndDrain(absl::Duration timeout);

  size_t Depth() const;
  size_t BacklogDepth() const;

 private:
  void AddLocked(std::string_view key, absl::Duration due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a key of the backlog may be handed out now.
  bool BacklogIsOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool BacklogIsNext(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next key of queue or backlog; there must be one.
  std::string TakeNext(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MoveDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Clock& clock_;
  const size_t backlog_at_once_;
  RateLimiter limiter_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::string> queue_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> backlog_ ABSL_GUARDED_BY(mutex_);             // with keys that have been moved up since
  std::unordered_set<std::string> in_backlog_ ABSL_GUARDED_BY(mutex_);  // the others
  int taken_before_backlog_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_set<std::string> backlog_with_workers_ ABSL_GUARDED_BY(mutex_);   // those of `processing_` that came of it
  std::unordered_map<std::string, absl::Duration> dirty_ ABSL_GUARDED_BY(mutex_);  // to be handed out → since when
  std::unordered_set<std::string> processing_ ABSL_GUARDED_BY(mutex_);
  std::multimap<absl::Duration, std::string> delayed_ ABSL_GUARDED_BY(mutex_);  // by due time
  std::unordered_map<std::string, std::multimap<absl::Duration, std::string>::iterator> delay_of_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace trainyard::control
