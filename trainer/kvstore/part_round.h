// The open round of one part in sync mode: the pushes of workers, and since when it is open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "trainer/kvstore/gradient_reader.h"

namespace trainyard::engine {

// Not thread-safe; time is what its caller says it is. A worker has one push per part on its way,
// of the open round or of a later one: one place for each worker is enough. Pushes are the received
// bytes themselves: nothing is copied or zeroed.
class PartRound {
 public:
  explicit PartRound(int workers) : held_(workers) {}

  int64_t step() const { return step_; }
  // The moment of its first push; where there is none, nothing that means anything.
  absl::Time since() const { return since_; }

  // Holds a worker's push. False: one of this or of a later step is held already, and the first one
  // counts.
  bool Hold(int worker, int64_t step, PushedGradient gradient, absl::Time now);
  // Workers that have pushed the open round, and those that have not, each in order.
  std::vector<int> Pushed() const { return WorkersWhere(true); }
  std::vector<int> Missing() const { return WorkersWhere(false); }
  bool IsComplete() const { return CountPushed() == held_.size(); }
  const PushedGradient& GradientOf(int worker) const { return held_[worker].gradient; }
  // The round is done: its pushes are released, the next one is open.
  void Advance(absl::Time now);

  // The part is elsewhere in the training; what is held of other rounds stays.
  void MoveTo(int64_t step) { step_ = step; }
  // Forgets what a worker has pushed, or what all have from a step on.
  void Drop(int worker) { held_[worker] = {}; }
  void DropFrom(int64_t step);

 private:
  struct Held {
    int64_t step = -1;
    PushedGradient gradient;
  };
  size_t CountPushed() const;
  std::vector<int> WorkersWhere(bool pushed) const;

  int64_t step_ = 0;
  absl::Time since_;
  std::vector<Held> held_;  // by worker
};

}  // namespace trainyard::engine
