#include "trainer/train/equal_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

std::string Refusal(int64_t examples, int workers, int64_t end_step) {
  const Sampler sampler = Sampler::Create({.examples = examples, .batch_size = 4, .workers = workers, .order = {}}).value();
  return std::string(CheckEqualBatches(sampler, end_step, "spec.training.data.train").message());
}

TEST(CheckEqualBatches, AnEpochWithoutARestIsTaken) {
  EXPECT_EQ(Refusal(12, 1, 100), "");
  EXPECT_EQ(Refusal(24, 3, 100), "");
  EXPECT_EQ(Refusal(3, 1, 100), "") << "one batch is an epoch";
}

TEST(CheckEqualBatches, ARestIsRefusedWhereTheTrainingComesToIt) {
  EXPECT_THAT(Refusal(14, 1, 4), HasSubstr("spec.training.data.train: batch 4 has 2 examples, the first one has 4"));
  EXPECT_EQ(Refusal(14, 1, 3), "");
}

TEST(CheckEqualBatches, SoIsAStepThatGivesUpAFewForTheLastOne) { EXPECT_THAT(Refusal(25, 3, 100), HasSubstr("the first one has 4")); }

}  // namespace
}  // namespace trainyard::engine
