#include "operator/base/log_budget.h"

#include <gtest/gtest.h>

#include "operator/base/fake_clock.h"

namespace trainyard::control {
namespace {

TEST(LogBudget, TheFirstTenOfAMinuteAreLoggedAndTheRestCounted) {
  FakeClock clock;
  LogBudget budget(clock);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(budget.Take(), 0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(budget.Take(), std::nullopt);
  clock.Advance(absl::Minutes(1));
  EXPECT_EQ(budget.Take(), 5);
  EXPECT_EQ(budget.Take(), 0);
}

}  // namespace
}  // namespace trainyard::control
