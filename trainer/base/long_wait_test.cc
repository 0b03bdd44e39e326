#include "trainer/base/long_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LongWait, IsToldAtEveryLookFromFiveSecondsOnAndOnceAtItsEnd) {
  std::vector<std::string> told;
  const WaitTold tell = [&told](const std::string& text) { told.push_back(text); };
  const absl::Time start = absl::FromUnixSeconds(1000);
  {
    LongWait wait("rank 1", start, tell);
    wait.Look(start + absl::Seconds(4), [] { return std::string("rank 0"); });
    EXPECT_THAT(told, IsEmpty());
    wait.Look(start + absl::Milliseconds(5'900), [] { return std::string("rank 0"); });
    wait.Look(start + absl::Seconds(7), [] { return std::string("rank 2"); });
    wait.Look(start + absl::Seconds(8), [] { return std::string(); });
  }
  EXPECT_THAT(told, ElementsAre("rank 1 waits, 5s: rank 0", "rank 1 waits, 7s: rank 2", ""));
}

TEST(LongWait, BeginsAgainWhenSomethingCame) {
  std::vector<std::string> told;
  const WaitTold tell = [&told](const std::string& text) { told.push_back(text); };
  const absl::Time start = absl::FromUnixSeconds(1000);
  LongWait wait("rank 1", start, tell);
  wait.Look(start + absl::Seconds(5), [] { return std::string("a"); });
  wait.Restart(start + absl::Seconds(6));
  wait.Look(start + absl::Seconds(10), [] { return std::string("b"); });
  wait.Look(start + absl::Seconds(11), [] { return std::string("c"); });
  EXPECT_THAT(told, ElementsAre("rank 1 waits, 5s: a", "", "rank 1 waits, 5s: c"));
}

TEST(LongWait, ThatWasShortTellsNothing) {
  int told = 0;
  const WaitTold tell = [&told](const std::string&) { ++told; };
  {
    LongWait wait("rank 1", absl::UnixEpoch(), tell);
  }

  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace trainyard::engine
