#include "trainer/kvstore/part_pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::Each;

std::vector<ParameterSpec> Specs() { return {{.name = "dense/kernel", .shape = Shape({4})}, {.name = "dense/bias", .shape = Shape({2})}}; }

Payload Ones(int count) {
  auto values = std::make_shared<std::vector<float>>(count, 1.0F);
  return {std::as_bytes(std::span<const float>(*values)), values};
}

TEST(PartPullTest, AServerIsCompleteWhenEveryPartOfItHasCome) {
  const Placement placement = PlaceParameters(Specs(), 1);
  TrainingState state{.parameters = ParameterSet(Specs()), .slots = {}, .step = 0};
  PartPull pull(placement, 1, /*slots=*/1);
  pull.Begin(&state, /*with_slots=*/false);
  EXPECT_TRUE(pull.Ask(0));
  pull.Store(0, 0, 0, 7, Ones(4));
  EXPECT_FALSE(pull.IsComplete(0));
  pull.Store(0, 1, 0, 8, Ones(2));
  EXPECT_TRUE(pull.IsComplete(0));
  EXPECT_THAT(state.parameters.values(0), Each(1.0F));
  EXPECT_EQ(state.step, 8);
  const PartPull::Steps steps = pull.End();
  EXPECT_EQ(steps.lowest, 7);
  EXPECT_EQ(steps.highest, 8);
}

TEST(PartPullTest, ValuesThatWereNotAskedForAreDropped) {
  const Placement placement = PlaceParameters(Specs(), 1);
  TrainingState state{.parameters = ParameterSet(Specs()), .slots = {}, .step = 0};
  PartPull pull(placement, 1, /*slots=*/1);
  pull.Store(0, 0, 0, 7, Ones(4));
  pull.Begin(&state, /*with_slots=*/false);
  EXPECT_TRUE(pull.Ask(0));
  pull.Store(0, 0, /*slot=*/1, 7, Ones(4));
  EXPECT_FALSE(pull.IsComplete(0));
  EXPECT_EQ(state.step, 0);
}

}  // namespace
}  // namespace trainyard::engine
