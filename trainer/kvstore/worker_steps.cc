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
  const std::span<Progress> first = std::span(progress_).first(workers_);
  int64_t sum = 0;
  int unknown = 0;
  for (const Progress& progress : first) {
    sum += progress.known ? progress.step : 0;
    unknown += progress.known ? 0 : 1;
  }
  for (Progress& progress : first) {
    if (progress.known) continue;
    progress.step = (std::max<int64_t>(0, step - sum) + unknown - 1) / unknown;
    sum += progress.step;
    --unknown;
  }
  // What workers that came later have done is known to the chief only.
  const bool scaled = std::ranges::any_of(std::span(progress_).subspan(workers_), &Progress::known);
  updates_ = step;
  correction_ = scaled ? std::max<int64_t>(0, sum - step) : sum - step;
  for (Progress& progress : progress_) progress.seen = updates_;
  begun_ = true;
}

void WorkerSteps::Reset() {
  absl::MutexLock lock(&mutex_);
  std::ranges::fill(progress_, Progress{});
  updates_ = correction_ = 0;
  begun_ = false;
}

void WorkerSteps::Correct(int worker, int64_t step) {
  Progress& progress = progress_[worker];
  // Before Begin nothing is counted. A worker that comes later has not done the steps before it.
  if (begun_ && (IsFirst(worker) || progress.known)) correction_ += step - progress.step;
  progress.step = step;
  progress.parts = 0;
  progress.known = true;
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
  if (step > progress.step) Correct(worker, step);
  if (step < progress.step) return;
  progress.known = true;
  if (++progress.parts < trainable_parts_) return;
  progress.parts = 0;
  ++progress.step;
  ++counts_.worker_steps[worker];
  ++counts_.steps;
  if (mode_ == KvMode::kSync) return;
  const int64_t staleness = updates_ - progress.seen;
  counts_.staleness_sum += staleness;
  counts_.staleness_max = std::max(counts_.staleness_max, staleness);
  progress.seen = ++updates_;
}

void WorkerSteps::CountDuplicate() {
  absl::MutexLock lock(&mutex_);
  ++counts_.duplicates;
}

void WorkerSteps::SetPosition(int worker, int64_t step) {
  if (mode_ == KvMode::kSync) return;
  absl::MutexLock lock(&mutex_);
  // A word that is older than the worker's pushes changes nothing.
  if (step > progress_[worker].step || !progress_[worker].known) Correct(worker, step);
}

void WorkerSteps::SawCurrent(int worker) {
  absl::MutexLock lock(&mutex_);
  progress_[worker].seen = updates_;
}

int64_t WorkerSteps::SeenBy(int worker) const {
  absl::MutexLock lock(&mutex_);
  return progress_[worker].seen;
}

int64_t WorkerSteps::global_step() const {
  absl::MutexLock lock(&mutex_);
  if (mode_ == KvMode::kAsync) return updates_ + correction_;
  return versions_.empty() ? 0 : versions_.begin()->first;
}

int64_t WorkerSteps::NextStepOf(int worker) const {
  if (trainable_parts_ == 0) return -1;
  if (mode_ == KvMode::kSync) return global_step();
  absl::MutexLock lock(&mutex_);
  return NextStep(worker);
}

bool WorkerSteps::Knows(int worker) const {
  absl::MutexLock lock(&mutex_);
  return progress_[worker].known;
}

int64_t WorkerSteps::NextStep(int worker) const {
  const Progress& progress = progress_[worker];
  if (IsFirst(worker) || progress.known) return progress.step;
  return std::ranges::min(std::span(progress_).first(workers_), {}, &Progress::step).step;
}

int64_t WorkerSteps::PlannedBy(std::span<const int64_t> ends) const {
  absl::MutexLock lock(&mutex_);
  int64_t planned = updates_ + correction_;
  for (size_t worker = 0; worker < ends.size(); ++worker) {
    if (ends[worker] < 0) continue;  // of most places: NextStep looks at all workers
    planned += std::max<int64_t>(0, ends[worker] - NextStep(static_cast<int>(worker)));
  }
  return planned;
}

WorkerSteps::Counts WorkerSteps::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace trainyard::engine
