#include "operator/progress/poll_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard::control {
namespace {

constexpr absl::Duration kNow = absl::Seconds(100);

std::vector<std::string> TakeAll(PollSchedule& schedule) {
  std::vector<std::string> taken;
  absl::Duration next;
  while (auto key = schedule.Take(kNow, next)) taken.push_back(*std::move(key));
  return taken;
}

TEST(PollSchedule, TakesWhatIsDueEarliestFirstAndTellsWhenTheNextIs) {
  PollSchedule schedule(8);
  schedule.Set("a/later", absl::Seconds(130));
  schedule.Set("a/second", absl::Seconds(90));
  schedule.Set("a/first", absl::Seconds(80));
  EXPECT_EQ(TakeAll(schedule), (std::vector<std::string>{"a/first", "a/second"}));
  absl::Duration next;
  EXPECT_FALSE(schedule.Take(kNow, next));
  EXPECT_EQ(next, absl::Seconds(130));
  schedule.Set("a/later", absl::Seconds(95));
  EXPECT_EQ(TakeAll(schedule), std::vector<std::string>{"a/later"});
  schedule.Set("a/gone", absl::Seconds(1));
  schedule.Remove("a/gone");
  EXPECT_TRUE(TakeAll(schedule).empty());
}

TEST(PollSchedule, NamespacesTakeTurnsHoweverManyKeysOneHas) {
  PollSchedule schedule(100);
  for (int i = 0; i < 50; ++i) schedule.Set("crowd/" + std::to_string(i), absl::Seconds(i));
  schedule.Set("small/a", absl::Seconds(99));
  schedule.Set("small/b", absl::Seconds(99));
  const std::vector<std::string> taken = TakeAll(schedule);
  ASSERT_EQ(taken.size(), 52U);
  EXPECT_EQ((std::vector<std::string>{taken[1], taken[3]}), (std::vector<std::string>{"small/a", "small/b"}));
}

TEST(PollSchedule, ANamespaceWhoseKeysHangKeepsNoMoreThanItsShare) {
  PollSchedule schedule(2);
  for (int i = 0; i < 10; ++i) schedule.Set("hang/" + std::to_string(i), absl::Seconds(i));
  EXPECT_EQ(TakeAll(schedule).size(), 2U);
  schedule.Set("other/a", absl::Seconds(99));
  EXPECT_EQ(TakeAll(schedule), std::vector<std::string>{"other/a"});
  schedule.Done("hang/0");
  EXPECT_EQ(TakeAll(schedule), std::vector<std::string>{"hang/2"});
}

}  // namespace
}  // namespace trainyard::control
