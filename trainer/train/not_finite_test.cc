#include "trainer/train/not_finite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ParameterSet Set() {
  ParameterSet set({{.name = "dense/kernel", .shape = Shape({3})}, {.name = "norm/moving_mean", .shape = Shape({2}), .trainable = false}});
  set.values(1)[0] = 5;
  return set;
}

Batch FloatBatch(float value) {
  Batch batch;
  batch.Resize(2, DType::kF32, Shape({2}), DType::kI32, Shape({}));
  for (float& x : batch.x.values<float>()) x = 1;
  batch.x.values<float>()[3] = value;
  for (int32_t& y : batch.y.values<int32_t>()) y = 0;
  return batch;
}

TEST(NotFiniteTest, ALossIsLookedAtAlwaysAndGradientsWhereTheyAreGiven) {
  ParameterSet gradients = Set();
  EXPECT_EQ(FindNotFinite(0.5, &gradients), std::nullopt);
  EXPECT_EQ(FindNotFinite(kNan, nullptr), "loss is NaN");
  EXPECT_EQ(FindNotFinite(kInfinity, nullptr), "loss is infinite");
  gradients.values(0)[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(FindNotFinite(0.5, nullptr), std::nullopt);
  EXPECT_EQ(FindNotFinite(0.5, &gradients), "the gradient of 'dense/kernel' is not finite");
}

TEST(NotFiniteTest, TheErrorNamesStepReplicaLearningRateAndWhatToDo) {
  const absl::Status error = NotFiniteError("loss is NaN", {.replica = "worker-1", .step = 12, .learning_rate = 1e6}, FloatBatch(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(error));
  EXPECT_THAT(std::string(error.message()),
              AllOf(HasSubstr("loss is NaN at step 12, worker-1; learning rate 1e+06; lower optimizer.learningRate"),
                    HasSubstr("onNonFinite: skip")));
}

TEST(NotFiniteTest, DataThatHoldNanAreNamedInPlaceOfTheLearningRate) {
  const absl::Status error = NotFiniteError("loss is NaN", {.replica = "worker-0", .step = 3, .learning_rate = 0.1},
                                            FloatBatch(std::numeric_limits<float>::infinity()));
  EXPECT_THAT(std::string(error.message()), AllOf(HasSubstr("at step 3, worker-0: its batch holds a value"), HasSubstr("mend the data")));
}

TEST(NotFiniteTest, ANeutralStepHasNoGradientAndLeavesWhatIsNotTrainable) {
  ParameterSet gradients = Set();
  gradients.values(0)[1] = std::numeric_limits<float>::quiet_NaN();
  gradients.values(1)[0] = std::numeric_limits<float>::quiet_NaN();
  Neutralize(Set(), gradients);
  EXPECT_THAT(gradients.values(0), Each(0.0F));
  EXPECT_THAT(gradients.values(1), ElementsAre(5.0F, 0.0F));
}

TEST(NotFiniteTest, AStateWithAValueThatIsNoneIsRefusedByName) {
  TrainingState state{.parameters = Set(), .slots = {}, .step = 40};
  state.slots.push_back(Set());
  EXPECT_TRUE(CheckFinite(state, "checkpoint").ok());
  state.slots[0].values(0)[0] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(std::string(CheckFinite(state, "checkpoint").message()),
              AllOf(HasSubstr("no checkpoint of step 40"), HasSubstr("slot of 'dense/kernel'")));
  state.parameters.values(1)[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(std::string(CheckFinite(state, "checkpoint").message()), HasSubstr("parameter 'norm/moving_mean'"));
}

}  // namespace
}  // namespace trainyard::engine
