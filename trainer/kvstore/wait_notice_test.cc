#include "trainer/kvstore/wait_notice.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

TEST(WaitNotice, IsDueAfterAWhileAndThenOnceAPeriod) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  WaitNotice notice(start);
  EXPECT_EQ(notice.Due(start + absl::Seconds(4)), std::nullopt);
  EXPECT_EQ(notice.Due(start + absl::Milliseconds(5300)), absl::Seconds(5));
  EXPECT_EQ(notice.Due(start + absl::Seconds(35)), std::nullopt);
  EXPECT_EQ(notice.Due(start + absl::Seconds(36)), absl::Seconds(36));
}

}  // namespace
}  // namespace trainyard::engine
