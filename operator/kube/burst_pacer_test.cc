#include "operator/kube/burst_pacer.h"

#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

TEST(BurstPacer, HoldsOnlyWhatComesFastForLong) {
  BurstPacer pacer;
  absl::Duration now = absl::Seconds(100);
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(pacer.InBurst(now += BurstPacer::kGap)) << "slow events are never held";
  for (int i = 0; i < BurstPacer::kBurst; ++i) ASSERT_FALSE(pacer.InBurst(now += absl::Milliseconds(1))) << i;
  EXPECT_TRUE(pacer.InBurst(now += absl::Milliseconds(1)));
}

TEST(BurstPacer, ABurstGoesOnOverItsOwnPausesAndEndsWithSilence) {
  BurstPacer pacer;
  absl::Duration now = absl::Seconds(100);
  for (int i = 0; i <= BurstPacer::kBurst + 1; ++i) pacer.InBurst(now);
  now += BurstPacer::kPause;
  pacer.Paused(now);
  EXPECT_TRUE(pacer.InBurst(now)) << "what came during the pause belongs to the burst";
  EXPECT_FALSE(pacer.InBurst(now += absl::Milliseconds(6)));
}

}  // namespace
}  // namespace trainyard::control
