// Counts the streams of a transport or listener, so that its destructor can wait for their end.
#pragma once

#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "trainer/base/log.h"
#include "trainer/base/mutex.h"

namespace trainyard::engine {

// How many streams have not told their handler of their end yet. Thread-safe. Outlives them.
class StreamCount {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
  }
  void Remove() {
    MutexLock lock(&mutex_);
    --count_;
  }
  // False, and in the log as streams of `whose`: not within `patience`.
  bool AwaitZero(absl::Duration patience, std::string_view whose) {
    MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(+[](int* count) { return *count == 0; }, &count_), patience)) return true;
    LogError("{}: streams have not ended within {}; their memory is given up", whose, absl::FormatDuration(patience));
    return false;
  }

 private:
  Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace trainyard::engine
