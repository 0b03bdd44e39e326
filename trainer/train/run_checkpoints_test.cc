#include "trainer/train/run_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> DueEpochs(int64_t steps_an_epoch, int64_t epochs) {
  std::vector<int64_t> due;
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    if (EpochCheckpointIsDue(epoch * steps_an_epoch, epoch)) due.push_back(epoch);
  }
  return due;
}

TEST(EpochCheckpointIsDue, AfterEachEpochAndOfShortOnesOnceInAHundredSteps) {
  EXPECT_THAT(DueEpochs(100'000, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(DueEpochs(100, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(DueEpochs(99, 5), ElementsAre(2, 4));
  EXPECT_THAT(DueEpochs(30, 9), ElementsAre(4, 8));
  EXPECT_THAT(DueEpochs(1, 201), ElementsAre(100, 200));
}

}  // namespace
}  // namespace trainyard::engine
