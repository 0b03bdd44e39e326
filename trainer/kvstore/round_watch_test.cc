#include "trainer/kvstore/round_watch.h"

#include <gtest/gtest.h>

#include <array>

namespace trainyard::engine {
namespace {

const absl::Time kSince = absl::UnixEpoch() + absl::Hours(1);
constexpr absl::Duration kPatience = absl::Seconds(48);

OpenRound WaitsFor(std::vector<int> workers) { return {.part = 0, .step = 7, .since = kSince, .missing = std::move(workers)}; }

TEST(RoundWatch, AWorkerThatDoesNothingIsWaitedForFromTheFirstPushOn) {
  const std::array<absl::Time, 2> never = {absl::InfinitePast(), absl::InfinitePast()};
  EXPECT_FALSE(IsOverdue(WaitsFor({1}), never, kPatience, kSince + absl::Seconds(47)));
  EXPECT_TRUE(IsOverdue(WaitsFor({1}), never, kPatience, kSince + absl::Seconds(48)));
  const std::array<absl::Time, 2> long_ago = {absl::InfinitePast(), kSince - absl::Seconds(40)};
  EXPECT_FALSE(IsOverdue(WaitsFor({1}), long_ago, kPatience, kSince + absl::Seconds(47)));
}

TEST(RoundWatch, AWorkerAtWorkOnSomethingElseIsWaitedForAsLongAsItGetsOn) {
  const std::array<absl::Time, 2> busy = {absl::InfinitePast(), kSince + absl::Minutes(10)};
  EXPECT_FALSE(IsOverdue(WaitsFor({1}), busy, kPatience, kSince + absl::Minutes(10)));
  EXPECT_TRUE(IsOverdue(WaitsFor({1}), busy, kPatience, kSince + absl::Minutes(10) + kPatience));
}

TEST(RoundWatch, OneThatIsAtWorkIsNoExcuseForOneThatIsLost) {
  const std::array<absl::Time, 2> one = {kSince + absl::Seconds(47), absl::InfinitePast()};
  EXPECT_TRUE(IsOverdue(WaitsFor({0, 1}), one, kPatience, kSince + absl::Seconds(48)));
  EXPECT_FALSE(IsOverdue(WaitsFor({0}), one, kPatience, kSince + absl::Seconds(48)));
}

}  // namespace
}  // namespace trainyard::engine
