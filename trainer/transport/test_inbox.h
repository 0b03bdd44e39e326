// A handler for tests that count what arrives.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "trainer/transport/test_deadline.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Keeps the steps of what arrives, how streams ended, and what was turned away. Echoes what
// arrives, or trusts a stream that says something, where it is told to.
class Inbox : public StreamHandler {
 public:
  explicit Inbox(bool echo = false, bool trust = false) : echo_(echo), trust_(trust) {}
  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    if (trust_) stream->Trust();
    {
      absl::MutexLock lock(&mutex_);
      for (const Record& record : records) steps_.push_back(record.header.step);
    }
    if (echo_) stream->Send({records.begin(), records.end()});
  }
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    ++closed_;
    status_ = status;
  }
  void OnTurnedAway(const std::string& peer, const absl::Status& why) override {
    absl::MutexLock lock(&mutex_);
    turned_away_.push_back(fmt::format("{}: {}", peer, std::string(why.message())));
  }
  std::vector<uint64_t> AwaitSteps(size_t count) {
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return steps_.size() >= count; };
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&enough), kSoonOverSockets);
    return steps_;
  }
  // Of the stream that ended last.
  absl::Status AwaitClosed() {
    const auto closed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ > 0; };
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&closed), kSoonOverSockets)) return absl::InternalError("never closed");
    return status_;
  }
  std::vector<std::string> AwaitTurnedAway(size_t count) {
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return turned_away_.size() >= count; };
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&enough), kSoonOverSockets);
    return turned_away_;
  }
  // Whether so many streams ended or were turned away.
  bool AwaitGone(size_t count) {
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ + turned_away_.size() >= count; };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), kSoonOverSockets);
  }
  size_t count() {
    absl::MutexLock lock(&mutex_);
    return steps_.size();
  }
  std::vector<uint64_t> steps() {
    absl::MutexLock lock(&mutex_);
    return steps_;
  }

 private:
  const bool echo_;
  const bool trust_;
  absl::Mutex mutex_;
  std::vector<uint64_t> steps_ ABSL_GUARDED_BY(mutex_);
  size_t closed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> turned_away_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::engine
