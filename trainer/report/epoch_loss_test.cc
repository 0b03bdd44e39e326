#include "trainer/report/epoch_loss.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard::engine {
namespace {

TEST(EpochLoss, ASmallLastBatchCountsAsItsExamplesDo) {
  EpochLoss loss;
  EXPECT_TRUE(loss.empty());
  EXPECT_TRUE(std::isnan(loss.Mean()));
  loss.Add(0, 1.0, 9);
  loss.Add(0, 11.0, 1);
  EXPECT_EQ(loss.Mean(), 2.0);
}

TEST(EpochLoss, AnotherEpochBeginsANewMean) {
  EpochLoss loss;
  loss.Add(0, 1.0, 9);
  loss.Add(1, 5.0, 2);
  EXPECT_EQ(loss.Mean(), 5.0);
}

TEST(EpochLoss, GoesOnFromItsText) {
  EpochLoss loss;
  EXPECT_EQ(loss.ToText(), "");
  EXPECT_TRUE(EpochLoss::FromText("").empty());
  loss.Add(3, 0.1, 3);
  loss.Add(3, 0.7, 4);
  EpochLoss resumed = EpochLoss::FromText(loss.ToText());
  EXPECT_EQ(resumed.Mean(), loss.Mean());
  resumed.Add(3, 1.0, 1);
  loss.Add(3, 1.0, 1);
  EXPECT_EQ(resumed.Mean(), loss.Mean());
}

TEST(EpochLoss, ATextThatIsNoneIsAnEmptyOne) {
  for (const char* text : {"3", "3 0.5", "a 0.5 4", "3 x 4", "3 0.5 0", "3 0.5 -1", "3 nan 4", "3 inf 4", "3 0.5 4 5"}) {
    EXPECT_TRUE(EpochLoss::FromText(text).empty()) << text;
  }
}

}  // namespace
}  // namespace trainyard::engine
