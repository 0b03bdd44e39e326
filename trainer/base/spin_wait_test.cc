#include "trainer/base/spin_wait.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(SpinBudget, LongWaitsEndTheSpinningAndShortOnesBringItBack) {
  SpinBudget budget;
  EXPECT_EQ(budget.now(), SpinBudget::kMost);
  for (int wait = 0; wait < 20; ++wait) budget.Waited(milliseconds(5));
  EXPECT_EQ(budget.now(), nanoseconds(0));
  for (int wait = 0; wait < 20; ++wait) budget.Waited(SpinBudget::kShort);
  EXPECT_EQ(budget.now(), SpinBudget::kMost);
}

TEST(SpinThenSleep, SleepsOnlyWhereSpinningDidNotDo) {
  SpinBudget budget;
  int asked = 0, slept = 0;
  SpinThenSleep(budget, [&] { return ++asked == 3; }, [&] { ++slept; });
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(slept, 0);
  for (int wait = 0; wait < 20; ++wait) budget.Waited(milliseconds(5));
  SpinThenSleep(budget, [&] { return slept > 0; }, [&] { ++slept; });
  EXPECT_EQ(slept, 1);
}

}  // namespace
}  // namespace trainyard::engine
