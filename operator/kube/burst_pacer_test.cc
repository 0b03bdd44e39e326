#include "operator/kube/burst_pacer.h"

#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

constexpr auto kFull = static_cast<int>(BurstPacer::kBurst);

TEST(BurstPacer, SlowPiecesAreNeverHeld) {
  BurstPacer pacer;
  absl::Duration now = absl::Seconds(100);
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(pacer.InBurst(now += absl::Seconds(1) / BurstPacer::kRate)) << i;
}

TEST(BurstPacer, AfterABurstPiecesAreHeldHoweverTheyAreSpread) {
  BurstPacer pacer;
  absl::Duration now = absl::Seconds(100);
  for (int i = 0; i < kFull; ++i) ASSERT_FALSE(pacer.InBurst(now)) << i;
  int held = 0;
  for (int i = 0; i < 400; ++i) held += pacer.InBurst(now += absl::Milliseconds(5)) ? 1 : 0;  // 200 a second for two seconds
  EXPECT_NEAR(held, 400 - 2 * BurstPacer::kRate, 2);
}

TEST(BurstPacer, SilenceMakesRoomForTheNextBurst) {
  BurstPacer pacer;
  absl::Duration now = absl::Seconds(100);
  while (!pacer.InBurst(now)) {
  }
  now += absl::Seconds(BurstPacer::kBurst / BurstPacer::kRate);
  for (int i = 0; i < kFull; ++i) ASSERT_FALSE(pacer.InBurst(now)) << i;
  EXPECT_TRUE(pacer.InBurst(now));
}

}  // namespace
}  // namespace trainyard::control
