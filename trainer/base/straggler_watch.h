// Names the workers that are slow beside the others.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "trainer/base/worker_pace.h"

namespace trainyard::engine {

struct Straggler {
  WorkerPace pace;
  absl::Duration median;  // over all workers, of the same moment

  friend bool operator==(const Straggler&, const Straggler&) = default;
};

// With an even number it is the lower of the two in the middle, so that the slower of two workers
// can be told. Zero of none.
absl::Duration MedianPace(std::span<const WorkerPace> paces);

// Arithmetic on what it is told: no clock, no I/O. Not thread-safe.
class StragglerWatch {
 public:
  // A worker is a straggler from kBegins times the median on, until it is below kEnds times the
  // median. So it is not named again and again.
  static constexpr double kBegins = 1.5;
  static constexpr double kEnds = 1.25;

  struct Change {
    Straggler straggler;
    bool begins = false;  // else it ends
    friend bool operator==(const Change&, const Change&) = default;
  };
  // `paces`: the newest of each worker. A worker without a pace is not a straggler.
  std::vector<Change> Judge(std::span<const WorkerPace> paces);
  // Now, by worker; as they were when they became so.
  const std::map<int, Straggler>& stragglers() const { return stragglers_; }

 private:
  std::map<int, Straggler> stragglers_;
};

}  // namespace trainyard::engine
