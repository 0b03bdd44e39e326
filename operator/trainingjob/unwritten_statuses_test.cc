#include "operator/trainingjob/unwritten_statuses.h"

#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

Plan With(int64_t step, absl::Time looked_at) {
  TrainingJobStatus status;
  status.progress = Progress{.step = step, .updated_time = looked_at};
  Plan plan;
  plan.status = status;
  plan.status_timing = StatusTiming::kSettled;
  return plan;
}

TEST(UnwrittenStatuses, ProgressSettlesThoughEachLookAtItHasAnotherTime) {
  UnwrittenStatuses unwritten({});
  const auto delay = [&](int64_t step, absl::Duration now) {
    return unwritten.Delay("default/mnist", With(step, absl::UnixEpoch() + now), /*others_are_new=*/false, now);
  };
  EXPECT_EQ(delay(7, absl::ZeroDuration()), absl::Milliseconds(1500));
  EXPECT_EQ(delay(7, absl::Seconds(1)), absl::Milliseconds(500));
  EXPECT_EQ(delay(8, absl::Milliseconds(1400)), absl::Milliseconds(1500)) << "it has moved";
  EXPECT_EQ(delay(8, absl::Milliseconds(2900)), absl::ZeroDuration());
}

}  // namespace
}  // namespace trainyard::control
