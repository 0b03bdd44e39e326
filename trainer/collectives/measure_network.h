// Measures what an all-reduce costs among the ranks of a group that has just formed, so that all of
// them choose the same algorithms.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/collectives/cost_model.h"
#include "trainer/collectives/rank_group.h"

namespace trainyard::engine {

struct MeasureOptions {
  int rank = 0;
  absl::Duration at_most = absl::Milliseconds(200);  // behind the first exchange; the one under way then is finished
  Clock* clock = &RealClock();
};

struct MeasuredNetwork {
  NetworkCost cost;
  AlgorithmChoice choice;
};

// Before the group's first other operation, on every rank alike; returns the same on all. One rank
// alone measures nothing. The ranks do small and then larger all-reduces of both algorithms. Their
// sums tell all ranks alike when one of them has spent its time. Rank 0 chooses by its own times
// and tells the others. Errors are those of RankGroup::Wait.
absl::StatusOr<MeasuredNetwork> MeasureNetwork(RankGroup& group, const MeasureOptions& options = {});

}  // namespace trainyard::engine
