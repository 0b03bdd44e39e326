// When a job's status is written: the one place that decides it. Pure.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "operator/api/training_job.h"

namespace trainyard::control {

enum class StatusTiming : uint8_t {
  kSettled,        // counts of replicas, a message, progress: once they have settled
  kAfterChildren,  // a job's first, which only says that its children are being made: after that, with their counts
  kAtOnce,         // what people wait for, and counters, which are durable before their effects: before the rest of the plan
};

// For a status `after` that differs from the stored one. `only_creates`: the plan deletes and
// updates no child.
StatusTiming TimingOf(const TrainingJobStatus& before, const TrainingJobStatus& after, bool only_creates);

struct StatusWriteOptions {
  absl::Duration settle = absl::Milliseconds(1500);  // without a further change
  absl::Duration at_most = absl::Seconds(10);        // from the first change
};

// A status that is not written yet.
struct UnwrittenStatus {
  StatusTiming timing = StatusTiming::kSettled;
  absl::Duration age;           // since it first differed from the stored one
  absl::Duration unchanged;     // since it last changed
  bool others_are_new = false;  // other new jobs wait for their children
};

// How long the status waits from now on; zero: it is written now.
absl::Duration StatusDelay(const UnwrittenStatus& status, const StatusWriteOptions& options);

}  // namespace trainyard::control
