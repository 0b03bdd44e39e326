#include "trainer/base/wait_notice.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

TEST(WaitNotice, IsDueAfterAWhileAndThenOnceAPeriod) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  WaitNotice notice(start, absl::Seconds(30));
  EXPECT_EQ(notice.Due(start + absl::Seconds(4)), std::nullopt);
  EXPECT_EQ(notice.Due(start + absl::Milliseconds(5300)), absl::Seconds(5));
  EXPECT_EQ(notice.Due(start + absl::Seconds(35)), std::nullopt);
  EXPECT_EQ(notice.Due(start + absl::Seconds(36)), absl::Seconds(36));
}

TEST(WaitNotice, OfAWaitThatIsKnownToBeLongIsDueAtOnceAndThenOnceAPeriod) {
  const absl::Time now = absl::UnixEpoch();
  WaitNotice notice(absl::InfinitePast(), kShownWait);
  EXPECT_TRUE(notice.Due(now).has_value());
  EXPECT_FALSE(notice.Due(now + absl::Seconds(1)).has_value());
  EXPECT_TRUE(notice.Due(now + kShownWait).has_value());
}

}  // namespace
}  // namespace trainyard::engine
