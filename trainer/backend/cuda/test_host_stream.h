// Work in its order, on a thread of its own behind the caller, as the stream of a GPU does it. But
// work is left alone until somebody waits for it. So a place where nobody waits shows in every run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"

namespace trainyard::engine::cuda {

class HostStream {
 public:
  HostStream() : thread_([this] { Loop(); }) {}
  // Behind all work.
  ~HostStream() {
    {
      absl::MutexLock lock(&mutex_);
      wanted_ = given_;
      ends_ = true;
    }
    thread_.join();
  }

  // Returns its place, for WaitUntil.
  int64_t Give(std::function<void()> work) {
    absl::MutexLock lock(&mutex_);
    waiting_.push_back(std::move(work));
    return ++given_;
  }
  // Until the work at `place`, and all before it, is done. For any thread but the stream's own.
  void WaitUntil(int64_t place) {
    absl::MutexLock lock(&mutex_);
    Await(place);
  }
  void Wait() {
    absl::MutexLock lock(&mutex_);
    Await(given_);
  }

 private:
  void Await(int64_t place) {
    wanted_ = std::max(wanted_, place);
    const auto reached = [this, place] { return done_ >= place; };
    mutex_.Await(absl::Condition(&reached));
  }

  void Loop() {
    absl::MutexLock lock(&mutex_);
    const auto called = [this] { return ends_ || done_ < wanted_; };
    while (true) {
      mutex_.Await(absl::Condition(&called));
      if (done_ == given_) return;
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      mutex_.Unlock();
      work();
      mutex_.Lock();
      ++done_;
    }
  }

  absl::Mutex mutex_;  // of all that follows but the thread
  std::deque<std::function<void()>> waiting_;
  int64_t given_ = 0;
  int64_t wanted_ = 0;
  int64_t done_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trainyard::engine::cuda
