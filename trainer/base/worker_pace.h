// How long a worker of a synchronous job takes for a step by itself: input and computation, without
// waits for others.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace trainyard::engine {

// As the chief hears it.
struct WorkerPace {
  int worker = 0;  // rank
  absl::Duration step;
  std::string node;  // the machine that it runs on

  friend bool operator==(const WorkerPace&, const WorkerPace&) = default;
};

// The mean over the newest steps. Not thread-safe; time is what its caller says it is.
class PaceWindow {
 public:
  static constexpr absl::Duration kWindow = absl::Seconds(10);
  static constexpr size_t kFewestSteps = 3;  // of slow steps so many, however long ago

  // A step has ended at `now`; the worker needed `own` of it by itself. The first one, which makes
  // what the others use again, does not count.
  void Add(absl::Time now, absl::Duration own);
  // Absent where there are too few steps.
  std::optional<absl::Duration> Mean() const;

 private:
  struct Step {
    absl::Time end;
    absl::Duration own;
  };
  bool begun_ = false;
  std::deque<Step> steps_;
  absl::Duration sum_;
};

}  // namespace trainyard::engine
