#include "trainer/transport/dialled_link.h"

#include <gtest/gtest.h>

#include "trainer/transport/silent_stream.h"

namespace trainyard::engine {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();
constexpr absl::Duration kPeriod = absl::Seconds(2);
constexpr absl::Duration kAnswer = absl::Seconds(30);

TEST(DialledLinkTest, ANewLinkIsDialledAtOnceAndOnlyOnce) {
  DialledLink link(kPeriod, kAnswer);
  EXPECT_TRUE(link.DialDue(kStart));
  link.Dialled(std::make_shared<SilentStream>(), kStart);
  EXPECT_FALSE(link.DialDue(kStart + absl::Hours(1)));
  EXPECT_FALSE(link.up());
  EXPECT_EQ(link.NextDue(), kStart + kAnswer);
}

TEST(DialledLinkTest, HeartbeatsComeOncePerPeriodWhileItIsUp) {
  DialledLink link(kPeriod, kAnswer);
  link.Dialled(std::make_shared<SilentStream>(), kStart);
  EXPECT_FALSE(link.TakeHeartbeat(kStart + absl::Hours(1)));
  link.Answered(kStart);
  EXPECT_FALSE(link.TakeHeartbeat(kStart));
  EXPECT_EQ(link.NextDue(), kStart + kPeriod);
  link.Answered(kStart + absl::Seconds(1));  // what it tells later moves no heartbeat
  EXPECT_TRUE(link.TakeHeartbeat(kStart + kPeriod));
  EXPECT_FALSE(link.TakeHeartbeat(kStart + kPeriod));
  EXPECT_EQ(link.NextDue(), kStart + 2 * kPeriod);
  EXPECT_TRUE(link.Lost(absl::UnavailableError("reset"), kStart + kPeriod));
  EXPECT_FALSE(link.TakeHeartbeat(kStart + absl::Hours(1)));
}

TEST(DialledLinkTest, AStreamThatNeitherAnswersNorEndsIsGivenUpAndDialledAgain) {
  DialledLink link(kPeriod, kAnswer);
  link.Dialled(std::make_shared<SilentStream>(), kStart);
  EXPECT_FALSE(link.Unanswered(kStart + kAnswer / 2));
  EXPECT_TRUE(link.Unanswered(kStart + kAnswer));
  link.Lost(absl::UnavailableError("no answer"), kStart + kAnswer);
  EXPECT_FALSE(link.Unanswered(kStart + absl::Hours(1)));
  EXPECT_TRUE(link.DialDue(kStart + kAnswer + absl::Seconds(1)));
  link.Dialled(std::make_shared<SilentStream>(), kStart + absl::Hours(1));
  link.Answered(kStart + absl::Hours(1));
  EXPECT_FALSE(link.Unanswered(kStart + absl::Hours(2)));
}

TEST(DialledLinkTest, EachFailureIsWaitedForLongerUpToABoundAndALinkThatWasUpIsDialledSoon) {
  DialledLink link(kPeriod, kAnswer);
  absl::Time now = kStart;
  absl::Duration last;
  for (int i = 0; i < 10; ++i) {
    link.Dialled(std::make_shared<SilentStream>(), now);
    EXPECT_FALSE(link.Lost(absl::UnavailableError("refused"), now));
    const absl::Duration wait = link.NextDue() - now;
    EXPECT_GE(wait, last);
    EXPECT_LE(wait, absl::Seconds(1));
    EXPECT_FALSE(link.DialDue(now));
    last = wait;
    now += wait;
    EXPECT_TRUE(link.DialDue(now));
  }
  EXPECT_EQ(link.last_error(), "refused");
  link.Dialled(std::make_shared<SilentStream>(), now);
  link.Answered(now);
  EXPECT_TRUE(link.Lost(absl::OkStatus(), now));
  EXPECT_LT(link.NextDue() - now, last);
  EXPECT_EQ(link.last_error(), "it closed the stream");
}

}  // namespace
}  // namespace trainyard::engine
