#include "trainer/train/skipped_records.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

TEST(SkippedRecords, TellWhereTheTrainingGoesOnAndWhatEachOneCosts) {
  const std::vector<SkippedCheckpoint> skipped = {{.step = 142, .path = "c/step-142", .reason = "it is torn"},
                                                  {.step = 100, .path = "c/step-100", .reason = "no manifest"}};
  const std::vector<RestartRecord> records = SkippedRecords(skipped, 60);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].replica, "checkpoint");
  EXPECT_EQ(records[0].reason, "skipped c/step-142: it is torn");
  EXPECT_EQ(records[0].step, 60);
  EXPECT_EQ(records[0].lost_steps, 42);
  EXPECT_EQ(records[1].step, 60);
  EXPECT_EQ(records[1].lost_steps, 40);
}

TEST(SkippedRecords, WithoutAGoodOneTheTrainingLosesAllItsSteps) {
  const std::vector<SkippedCheckpoint> skipped = {{.step = 142, .path = "c/step-142", .reason = "it is torn"}};
  const std::vector<RestartRecord> records = SkippedRecords(skipped, 0);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].step, 0);
  EXPECT_EQ(records[0].lost_steps, 142);
}

}  // namespace
}  // namespace trainyard::engine
