// Which steps of which workers a server has applied whole, and how far the training is by that.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/kvstore/mode.h"

namespace trainyard::engine {

// Thread-safe; takes no other lock. A worker's step is whole when each trainable part that is held
// here was applied.
//
// Async: the global step is the sum of what the workers that the server was started with have done,
// and of what those that came later have done since. A server that was lost begins with the chief's
// sum. It assumes that workers that have not told their place share the rest of it evenly. A
// worker's word replaces that, so the sum is right again when all have come back.
class WorkerSteps {
 public:
  struct Counts {
    int64_t duplicates = 0;
    int64_t staleness_sum = 0;
    int64_t staleness_max = 0;
    int64_t steps = 0;                  // whole steps of all workers
    std::vector<int64_t> worker_steps;  // by worker
  };

  // `workers`: that the server was started with; `places`: those that there can be.
  WorkerSteps(KvMode mode, int workers, int places, int trainable_parts);

  // The training goes on at `step`.
  void Begin(int64_t step);
  // Forgets where workers are; counts stay.
  void Reset();
  // A trainable part goes on to another version.
  void MoveVersion(int64_t from, int64_t to);
  // A trainable part of a worker's step was applied.
  void CountPush(int worker, int64_t step);
  void CountDuplicate();
  // Async: a worker's word on its next step. Its steps are counted from there.
  void SetPosition(int worker, int64_t step);
  // A worker has just taken the current values: staleness counts from here.
  void SawCurrent(int worker);
  // How many updates the values have that a worker has, counted from Begin's step on.
  int64_t SeenBy(int worker) const;
  // Sync: the lowest version of any trainable part. Async: worker steps applied.
  int64_t global_step() const;
  // The next step of a worker that does not know; -1: nothing here can tell. A worker that a
  // running async job was scaled up by begins where the slowest of the first ones is.
  int64_t NextStepOf(int worker) const;
  // Async: the worker's place is by its own word or push.
  bool Knows(int worker) const;
  // Async: the global step at which each worker has done as many steps as `ends` says; below 0: it
  // does none from here on.
  int64_t PlannedBy(std::span<const int64_t> ends) const;
  Counts counts() const;

 private:
  struct Progress {
    int64_t step = 0;    // not yet whole
    int parts = 0;       // of it, applied
    int64_t seen = 0;    // updates_ of the values that it has
    bool known = false;  // `step` is by the worker's word or its push, else it is assumed
  };

  bool IsFirst(int worker) const { return worker < workers_; }
  int64_t NextStep(int worker) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // A worker turns out to be at `step`.
  void Correct(int worker, int64_t step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const KvMode mode_;
  const int workers_;
  const int trainable_parts_;
  mutable absl::Mutex mutex_;
  std::vector<Progress> progress_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, int> versions_ ABSL_GUARDED_BY(mutex_);  // how many trainable parts have each version
  int64_t updates_ ABSL_GUARDED_BY(mutex_) = 0;              // async: Begin's step and the whole steps since
  int64_t correction_ ABSL_GUARDED_BY(mutex_) = 0;           // to updates_, for the global step
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::engine
