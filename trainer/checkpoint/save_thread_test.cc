#include "trainer/checkpoint/save_thread.h"

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);

TEST(SaveThread, TheCallerGoesOnWhileASaveIsUnderWay) {
  SaveThread thread;
  absl::Notification may_end;
  EXPECT_TRUE(thread.idle());
  thread.Start([&] {
    may_end.WaitForNotification();
    return absl::DataLossError("told");
  });
  EXPECT_FALSE(thread.idle());
  EXPECT_FALSE(thread.Take());
  EXPECT_TRUE(absl::IsUnavailable(thread.AwaitIdle(absl::ZeroDuration())));
  may_end.Notify();
  EXPECT_TRUE(thread.AwaitIdle(kDeadline).ok());
  EXPECT_EQ(thread.Take(), absl::DataLossError("told"));
  EXPECT_FALSE(thread.Take());
}

TEST(SaveThread, ItsEndWaitsForTheSaveUnderWay) {
  bool saved = false;
  {
    SaveThread thread;
    thread.Start([&] {
      saved = true;
      return absl::OkStatus();
    });
  }
  EXPECT_TRUE(saved);
}

}  // namespace
}  // namespace trainyard::engine
