// A handler for tests that count what arrives.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "trainer/transport/test_deadline.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Keeps the steps of what arrives, and how its stream ended.
class Inbox final : public StreamHandler {
 public:
  explicit Inbox(bool echo = false) : echo_(echo) {}
  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    {
      absl::MutexLock lock(&mutex_);
      for (const Record& record : records) steps_.push_back(record.header.step);
    }
    if (echo_) stream->Send({records.begin(), records.end()});
  }
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    status_ = status;
  }
  std::vector<uint64_t> AwaitSteps(size_t count) {
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return steps_.size() >= count; };
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&enough), kSoon);
    return steps_;
  }
  absl::Status AwaitClosed() {
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&closed_), kSoon)) return absl::InternalError("never closed");
    return status_;
  }
  std::vector<uint64_t> steps() {
    absl::MutexLock lock(&mutex_);
    return steps_;
  }

 private:
  const bool echo_;
  absl::Mutex mutex_;
  std::vector<uint64_t> steps_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::engine
