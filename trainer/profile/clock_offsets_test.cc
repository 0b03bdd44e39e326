#include "trainer/profile/clock_offsets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/profile/profile_maker.h"

namespace trainyard::engine {
namespace {

std::vector<ClockOffset> Align(const std::vector<ReplicaProfile>& profiles) { return AlignClocks(profiles, FindExchanges(profiles)); }

TEST(ClockOffsets, SkewedClocksAreFoundExactlyWhereBothWaysTakeEquallyLong) {
  const std::vector<ClockOffset> offsets = Align(MakeProfiles({5'000'000'000, -40'000'000'000, 123'456}));
  ASSERT_EQ(offsets.size(), 3);
  EXPECT_EQ(offsets[0].nanos, 0);
  EXPECT_EQ(offsets[1].nanos, 45'000'000'000);
  EXPECT_EQ(offsets[2].nanos, 4'999'876'544);
  EXPECT_TRUE(offsets[1].known);
}

TEST(ClockOffsets, WaysOfUnequalLengthStayWithinTheStatedUncertainty) {
  const int64_t skew = 7'000'000;
  const std::vector<ClockOffset> offsets = Align(MakeProfiles({0, 0, skew}, /*forth=*/300'000, /*back=*/20'000));
  EXPECT_NE(offsets[2].nanos, -skew);
  EXPECT_LE(std::abs(offsets[2].nanos + skew), offsets[2].uncertainty);
  EXPECT_EQ(offsets[2].uncertainty, 160'000);  // half of the way there and back
  EXPECT_EQ(offsets[1].uncertainty, 320'000);  // through the server
}

TEST(ClockOffsets, AReplicaThatExchangedNothingIsTakenAsItIsAndSaidToBeUnknown) {
  std::vector<ReplicaProfile> profiles = MakeProfiles();
  std::erase_if(profiles[1].spans, [](const Span& span) { return span.kind == SpanKind::kPush; });
  const std::vector<ClockOffset> offsets = Align(profiles);
  EXPECT_FALSE(offsets[1].known);
  EXPECT_EQ(offsets[1].nanos, 0);
  EXPECT_TRUE(offsets[2].known);
}

TEST(ClockOffsets, AClockThatIsWeeksOffIsNotBelieved) {
  const std::vector<ClockOffset> offsets = Align(MakeProfiles({0, 0, 2 * kMostOffset}));
  EXPECT_FALSE(offsets[2].known);
}

TEST(ClockOffsets, NoReplicaIsNoCrash) { EXPECT_TRUE(AlignClocks({}, {}).empty()); }

}  // namespace
}  // namespace trainyard::engine
