#include "trainer/checkpoint/save_thread.h"

#include <system_error>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/log.h"

namespace trainyard::engine {

SaveThread::~SaveThread() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void SaveThread::Start(std::function<absl::Status()> save) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error& error) {
      LogWarning("no thread for checkpoints can be started ({}): the training waits while this checkpoint is written", error.what());
      const absl::Status outcome = save();
      MutexLock lock(&mutex_);
      outcome_ = outcome;
      return;
    }
  }
  MutexLock lock(&mutex_);
  TY_CHECK(!busy_ && !outcome_);
  save_ = std::move(save);
  busy_ = true;
}

bool SaveThread::idle() const {
  MutexLock lock(&mutex_);
  return !busy_;
}

absl::Status SaveThread::AwaitIdle(absl::Duration at_most) {
  MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !busy_; };
  if (mutex_.AwaitWithTimeout(absl::Condition(&idle), at_most)) return absl::OkStatus();
  return absl::UnavailableError("the checkpoint before was not written within " + absl::FormatDuration(at_most));
}

std::optional<absl::Status> SaveThread::Take() {
  MutexLock lock(&mutex_);
  return std::exchange(outcome_, std::nullopt);
}

void SaveThread::Run() {
  MutexLock lock(&mutex_);
  const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return save_ != nullptr || ending_; };
  while (true) {
    mutex_.Await(absl::Condition(&due));
    if (save_ == nullptr) return;
    std::function<absl::Status()> save = std::exchange(save_, nullptr);
    mutex_.Unlock();
    const absl::Status outcome = save();
    save = nullptr;  // the snapshot's memory goes before the next one is taken
    mutex_.Lock();
    outcome_ = outcome;
    busy_ = false;
  }
}

}  // namespace trainyard::engine
