#include "trainer/kvstore/part_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Time kStart = absl::UnixEpoch();

TEST(PartRoundTest, ARoundIsOpenSinceItsFirstPush) {
  PartRound round(3);
  EXPECT_TRUE(round.Hold(2, 0, {}, kStart));
  EXPECT_TRUE(round.Hold(0, 0, {}, kStart + absl::Seconds(5)));
  EXPECT_EQ(round.since(), kStart);
  EXPECT_THAT(round.Pushed(), ElementsAre(0, 2));
  EXPECT_THAT(round.Missing(), ElementsAre(1));
  EXPECT_FALSE(round.IsComplete());
}

TEST(PartRoundTest, APushOfALaterRoundDoesNotMakeTheOpenOneYounger) {
  PartRound round(3);
  EXPECT_TRUE(round.Hold(0, 0, {}, kStart));
  EXPECT_TRUE(round.Hold(1, 1, {}, kStart + absl::Seconds(5)));
  EXPECT_EQ(round.since(), kStart);
  EXPECT_THAT(round.Pushed(), ElementsAre(0));
}

TEST(PartRoundTest, AfterTheLastPushTheNextRoundIsOpenWithWhatIsHeldOfIt) {
  PartRound round(2);
  EXPECT_TRUE(round.Hold(0, 0, {}, kStart));
  EXPECT_TRUE(round.Hold(1, 0, {}, kStart));
  EXPECT_TRUE(round.IsComplete());
  round.Advance(kStart + absl::Seconds(1));
  EXPECT_EQ(round.step(), 1);
  EXPECT_THAT(round.Pushed(), IsEmpty());
  EXPECT_TRUE(round.Hold(1, 2, {}, kStart + absl::Seconds(2)));
  round.Advance(kStart + absl::Seconds(9));
  EXPECT_THAT(round.Pushed(), ElementsAre(1));
  EXPECT_EQ(round.since(), kStart + absl::Seconds(9));
}

TEST(PartRoundTest, ARepeatedPushDoesNotCountAndADroppedOneMayComeAgain) {
  PartRound round(2);
  EXPECT_TRUE(round.Hold(0, 3, {}, kStart));
  EXPECT_FALSE(round.Hold(0, 3, {}, kStart));
  round.DropFrom(4);
  EXPECT_FALSE(round.Hold(0, 3, {}, kStart));
  round.Drop(0);
  EXPECT_TRUE(round.Hold(0, 3, {}, kStart));
  round.DropFrom(3);
  EXPECT_TRUE(round.Hold(0, 3, {}, kStart));
}

}  // namespace
}  // namespace trainyard::engine
