#include "trainer/kvstore/worker_steps.h"

#include <algorithm>
#include <span>

namespace trainyard::engine {

WorkerSteps::WorkerSteps(KvMode mode, int workers, int places, int trainable_parts)
    : mode_(mode), workers_(workers), trainable_parts_(trainable_parts), progress_(places) {
  counts_.worker_steps.assign(places, 0);
  if (trainable_parts_ > 0) versions_[0] = trainable_parts_;
}

void WorkerSteps::Begin(int64_t step) {
  absl::MutexLock lock(&mutex_);
  async_step_ = step;
  for (int worker = 0; worker < workers_; ++worker) {
    // Where nobody remembers how many of the steps were whose, they were shared evenly.
    if (progress_[worker].step == 0) progress_[worker].step = (step + workers_ - 1 - worker) / workers_;
    progress_[worker].seen = step;
  }
}

void WorkerSteps::Reset() {
  absl::MutexLock lock(&mutex_);
  std::ranges::fill(progress_, Progress{});
  async_step_ = 0;
}

void WorkerSteps::MoveVersion(int64_t from, int64_t to) {
  if (from == to) return;
  absl::MutexLock lock(&mutex_);
  const auto found = versions_.find(from);
  if (--found->second == 0) versions_.erase(found);
  ++versions_[to];
}

void WorkerSteps::CountPush(int worker, int64_t step) {
  absl::MutexLock lock(&mutex_);
  Progress& progress = progress_[worker];
  if (step > progress.step) {
    progress.step = step;
    progress.parts = 0;
  }
  if (step < progress.step || ++progress.parts < trainable_parts_) return;
  progress.parts = 0;
  ++progress.step;
  ++progress.whole;
  ++counts_.worker_steps[worker];
  ++counts_.steps;
  if (mode_ == KvMode::kSync) return;
  const int64_t staleness = async_step_ - progress.seen;
  counts_.staleness_sum += staleness;
  counts_.staleness_max = std::max(counts_.staleness_max, staleness);
  progress.seen = ++async_step_;
}

void WorkerSteps::CountDuplicate() {
  absl::MutexLock lock(&mutex_);
  ++counts_.duplicates;
}

void WorkerSteps::SetPosition(int worker, int64_t step) {
  if (mode_ == KvMode::kSync) return;
  absl::MutexLock lock(&mutex_);
  Progress& progress = progress_[worker];
  // A refilled server assumed a position of a worker that had not come back yet. The worker's word
  // replaces it.
  const bool only_assumed = progress.whole == 0 && progress.parts == 0;
  if (step <= progress.step && !only_assumed) return;
  progress.step = step;
  progress.parts = 0;
}

void WorkerSteps::SawCurrent(int worker) {
  absl::MutexLock lock(&mutex_);
  progress_[worker].seen = async_step_;
}

int64_t WorkerSteps::SeenBy(int worker) const {
  absl::MutexLock lock(&mutex_);
  return progress_[worker].seen;
}

int64_t WorkerSteps::global_step() const {
  absl::MutexLock lock(&mutex_);
  if (mode_ == KvMode::kAsync) return async_step_;
  return versions_.empty() ? 0 : versions_.begin()->first;
}

int64_t WorkerSteps::NextStepOf(int worker) const {
  if (trainable_parts_ == 0) return -1;
  if (mode_ == KvMode::kSync) return global_step();
  absl::MutexLock lock(&mutex_);
  const int64_t step = progress_[worker].step;
  if (worker < workers_ || step > 0) return step;
  return std::ranges::min(std::span(progress_).first(workers_), {}, &Progress::step).step;
}

WorkerSteps::Counts WorkerSteps::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace trainyard::engine
