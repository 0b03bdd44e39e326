#include "trainer/report/wait_pace.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

TEST(WaitPaceTest, AWaitIsSaidAgainAfterAWhile) {
  WaitPace pace;
  const absl::Time start = absl::UnixEpoch();
  EXPECT_FALSE(pace.Due(false, start));
  EXPECT_TRUE(pace.Due(true, start));
  EXPECT_FALSE(pace.Due(true, start + absl::Seconds(1)));
  EXPECT_TRUE(pace.Due(true, start + kShownWait));
}

}  // namespace
}  // namespace trainyard::engine
