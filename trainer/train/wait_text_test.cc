#include "trainer/train/wait_text.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

KvOpenRound OpenRoundOf(absl::Duration age, std::vector<int> waiting, std::vector<int> missing) {
  return {.step = 31, .age = age, .waiting = std::move(waiting), .missing = std::move(missing)};
}

TEST(WaitTextTest, NamesWhoWaitsForWhomWhereAndHowLong) {
  EXPECT_EQ(WaitText(OpenRoundOf(absl::Milliseconds(12900), {0}, {2}), false), "worker-0 waits for worker-2 at step 31, 12 s");
  EXPECT_EQ(WaitText(OpenRoundOf(absl::Seconds(5), {0, 1}, {2, 3}), false),
            "worker-0, worker-1 wait for worker-2, worker-3 at step 31, 5 s");
}

TEST(WaitTextTest, AChiefOfItsOwnIsRank0AndTheWorkersFollowIt) {
  EXPECT_EQ(WaitText(OpenRoundOf(absl::Seconds(9), {0, 2}, {1}), true), "chief-0, worker-1 wait for worker-0 at step 31, 9 s");
}

TEST(WaitTextTest, ShortWaitsAndNoneAreNotTold) {
  EXPECT_EQ(WaitText(std::nullopt, false), "");
  EXPECT_EQ(WaitText(OpenRoundOf(absl::Milliseconds(4900), {0}, {1}), false), "");
  EXPECT_EQ(WaitText(OpenRoundOf(absl::Seconds(9), {0}, {}), false), "");
}

TEST(WaitTextTest, OfManyWorkersAFewAreNamed) {
  EXPECT_EQ(WaitText(OpenRoundOf(absl::Seconds(6), {9}, {0, 1, 2, 3, 4, 5}), false),
            "worker-9 waits for worker-0, worker-1, worker-2, worker-3 and 2 more at step 31, 6 s");
}

}  // namespace
}  // namespace trainyard::engine
