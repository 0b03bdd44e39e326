#include "trainer/kvstore/part_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/kvstore/test_payload.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One tensor "w" of three floats at learning rate 1, so that an update is a subtraction.
class PartStoreTest : public ::testing::Test {
 protected:
  void Make(KvMode mode, int workers, int64_t step = 0, StalenessRule staleness = StalenessRule::kPlain, int devices = 1) {
    OptimizerConfig config;
    config.staleness = staleness;
    config.name = "sgd";
    config.learning_rate = 1;
    const std::vector<ParameterSpec> specs = {{.name = "w", .shape = Shape({3}), .trainable = true}};
    store_ = std::make_unique<PartStore>(specs, PlaceParameters(specs, 1), 0, mode, workers, *MakeOptimizer(config), config, RealClock(),
                                         devices);
    store_->Assign(0, 0, Floats({10, 20, 30}));
    ASSERT_TRUE(store_->Activate(step, step).ok());
  }

  static Payload Floats(std::vector<float> values) { return FloatPayload(std::move(values)); }
  static std::vector<float> Values(const Payload& payload) { return ValuesOf(payload); }
  std::optional<PushAnswer> Push(int worker, int64_t step, float gradient) {
    return store_->Push(0, worker, step, Floats({gradient, gradient, gradient}));
  }

  std::unique_ptr<PartStore> store_;
};

TEST_F(PartStoreTest, AsyncAppliesAtOnceAndEachStepOnce) {
  Make(KvMode::kAsync, 2);
  std::optional<PushAnswer> answer = Push(0, 0, 1);
  ASSERT_TRUE(answer);
  EXPECT_THAT(Values(answer->values), ElementsAre(9, 19, 29));
  EXPECT_EQ(answer->step, 1);
  answer = Push(0, 0, 1);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->duplicate);
  EXPECT_THAT(Values(answer->values), ElementsAre(9, 19, 29));
  answer = Push(1, 0, 2);
  EXPECT_THAT(Values(answer->values), ElementsAre(7, 17, 27));
  EXPECT_EQ(store_->global_step(), 2);
  EXPECT_EQ(store_->counts().duplicates, 1);
}

TEST_F(PartStoreTest, AsyncStalenessCountsTheStepsOfOthers) {
  Make(KvMode::kAsync, 2);
  for (int64_t step = 0; step < 3; ++step) Push(0, step, 1);
  Push(1, 0, 1);
  const PartStore::Counts counts = store_->counts();
  EXPECT_EQ(counts.staleness_max, 3);
  EXPECT_EQ(counts.staleness_sum, 3);
  EXPECT_EQ(counts.steps, 4);
}

TEST_F(PartStoreTest, AsyncDividesTheLearningRateOfAStaleGradientWhereItShould) {
  Make(KvMode::kAsync, 3, /*step=*/5, StalenessRule::kAdapt);
  EXPECT_THAT(Values(Push(0, 5, 1)->values), ElementsAre(9, 19, 29)) << "worker 0 has the newest values";
  EXPECT_THAT(Values(Push(1, 5, 2)->values), ElementsAre(8, 18, 28)) << "worker 1 has those from before worker 0's update: half the rate";
  EXPECT_THAT(Values(Push(2, 5, 3)->values), ElementsAre(7, 17, 27)) << "a third";
  EXPECT_THAT(Values(Push(2, 6, 1)->values), ElementsAre(6, 16, 26)) << "nobody pushed since worker 2's last answer";
  EXPECT_THAT(Values(Push(0, 6, 4)->values), ElementsAre(5, 15, 25)) << "three updates since worker 0's";
}

TEST_F(PartStoreTest, AGradientOfAWorkerThatHasJustPulledIsNotStale) {
  Make(KvMode::kAsync, 2, /*step=*/0, StalenessRule::kAdapt);
  for (int64_t step = 0; step < 3; ++step) Push(0, step, 1);
  store_->SawCurrent(1);
  EXPECT_THAT(Values(Push(1, 0, 4)->values), ElementsAre(3, 13, 23));
}

TEST_F(PartStoreTest, SyncWaitsForEveryWorkerAndAppliesTheMeanOnce) {
  Make(KvMode::kSync, 2);
  EXPECT_FALSE(Push(1, 0, 4));
  EXPECT_FALSE(Push(1, 0, 100)) << "a repeated push does not replace the first";
  const std::optional<PushAnswer> answer = Push(0, 0, 2);
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->workers, ElementsAre(0, 1));
  EXPECT_THAT(Values(answer->values), ElementsAre(7, 17, 27));
  EXPECT_EQ(answer->step, 1);
  const std::optional<PushAnswer> late = Push(0, 0, 2);
  ASSERT_TRUE(late);
  EXPECT_TRUE(late->duplicate);
  EXPECT_THAT(late->workers, ElementsAre(0));
  EXPECT_THAT(Values(late->values), ElementsAre(7, 17, 27));
}

TEST_F(PartStoreTest, SyncAddsInTreeOrderWhateverTheOrderOfArrival) {
  // In the order of workers 1e8 would swallow the first 1.
  for (const std::vector<int>& arrival : {std::vector<int>{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}}) {
    Make(KvMode::kSync, 5);
    const std::vector<float> gradients = {1e8F, 1.0F, -1e8F, 9.0F, 5.0F};
    std::optional<PushAnswer> answer;
    for (const int worker : arrival) answer = Push(worker, 0, gradients[worker]);
    ASSERT_TRUE(answer);
    const float mean = (((1e8F + 1.0F) + (-1e8F + 9.0F)) + 5.0F) / 5;
    EXPECT_THAT(Values(answer->values), ElementsAre(10 - mean, 20 - mean, 30 - mean));
  }
}

TEST_F(PartStoreTest, SyncLeavesAWorkerWithoutExamplesOutOfTheTree) {
  Make(KvMode::kSync, 4);
  EXPECT_FALSE(Push(0, 0, 1e8F));
  PushedGradient nothing;
  nothing.addends = 0;
  EXPECT_FALSE(store_->Push(0, 1, 0, nothing));
  EXPECT_FALSE(Push(2, 0, -1e8F));
  const std::optional<PushAnswer> answer = Push(3, 0, 9.0F);
  ASSERT_TRUE(answer);
  const float mean = (1e8F + (-1e8F + 9.0F)) / 4;
  EXPECT_THAT(Values(answer->values), ElementsAre(10 - mean, 20 - mean, 30 - mean));
}

TEST_F(PartStoreTest, SyncDividesTheSumsOverDevicesByAllDevices) {
  Make(KvMode::kSync, 2, /*step=*/0, StalenessRule::kPlain, /*devices=*/4);
  PushedGradient of_three = Floats({12, 12, 12});
  of_three.addends = 3;
  EXPECT_FALSE(store_->Push(0, 0, 0, std::move(of_three)));
  const std::optional<PushAnswer> answer = Push(1, 0, 4);
  ASSERT_TRUE(answer);
  EXPECT_THAT(Values(answer->values), ElementsAre(8, 18, 28)) << "16 / (2 * 4)";
}

TEST_F(PartStoreTest, AsyncAppliesAPushAsItIsWhateverTheNumberOfDevices) {
  Make(KvMode::kAsync, 2, /*step=*/0, StalenessRule::kPlain, /*devices=*/4);
  EXPECT_THAT(Values(Push(0, 0, 1)->values), ElementsAre(9, 19, 29));
}

TEST_F(PartStoreTest, SyncForgetsWhatAWorkerHadPushedToARoundThatIsNotComplete) {
  Make(KvMode::kSync, 2);
  EXPECT_FALSE(Push(1, 0, 4));
  store_->DropHeld(1);
  EXPECT_FALSE(Push(0, 0, 2)) << "worker 1 pushes again";
  const std::optional<PushAnswer> answer = Push(1, 0, 4);
  ASSERT_TRUE(answer);
  EXPECT_THAT(Values(answer->values), ElementsAre(7, 17, 27));
}

TEST_F(PartStoreTest, SyncHoldsAPushForALaterRoundUntilItsTurnAndItsWaitBeginsThen) {
  Make(KvMode::kSync, 2, /*step=*/5);
  EXPECT_FALSE(Push(1, 6, 2));
  EXPECT_FALSE(store_->OldestOpenRound()) << "nobody waits for worker 0 in round 5";
  EXPECT_FALSE(Push(0, 5, 1));
  const std::optional<OpenRound> round = store_->OldestOpenRound();
  ASSERT_TRUE(round);
  EXPECT_EQ(round->step, 5);
  EXPECT_GT(round->since, absl::UnixEpoch());
}

TEST_F(PartStoreTest, AsyncTakesValuesOfALaterStepThanItsFirstOnesOnce) {
  Make(KvMode::kAsync, 2, /*step=*/5);
  EXPECT_FALSE(store_->TakeNewer(0, 5, Floats({1, 2, 3}))) << "of the same step";
  ASSERT_TRUE(Push(0, 5, 1));
  EXPECT_TRUE(store_->TakeNewer(0, 6, Floats({1, 2, 3})));
  EXPECT_THAT(Values(store_->Read(0, 0)), ElementsAre(1, 2, 3));
  EXPECT_FALSE(store_->TakeNewer(0, 9, Floats({7, 7, 7}))) << "it would undo updates";
  const std::optional<PushAnswer> answer = Push(1, 5, 1);
  ASSERT_TRUE(answer);
  EXPECT_THAT(Values(answer->values), ElementsAre(0, 1, 2));
}

TEST_F(PartStoreTest, SyncTakesNoValuesOfALaterStep) {
  Make(KvMode::kSync, 2, /*step=*/5);
  EXPECT_FALSE(store_->TakeNewer(0, 6, Floats({1, 2, 3})));
}

TEST_F(PartStoreTest, SyncCountsAWorkerWithoutExamplesAndAddsNothing) {
  Make(KvMode::kSync, 2);
  PushedGradient empty;
  empty.addends = 0;
  EXPECT_FALSE(store_->Push(0, 1, 0, empty));
  const std::optional<PushAnswer> answer = Push(0, 0, 2);
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->workers, ElementsAre(0, 1));
  EXPECT_THAT(Values(answer->values), ElementsAre(9, 19, 29)) << "2 / 2 workers";
  EXPECT_FALSE(store_->Push(0, 0, 1, empty));
  const std::optional<PushAnswer> nothing = store_->Push(0, 1, 1, empty);
  ASSERT_TRUE(nothing);
  EXPECT_THAT(Values(store_->Read(0, 0)), ElementsAre(9, 19, 29)) << "nobody had an example";
  EXPECT_EQ(nothing->step, 2);
}

TEST_F(PartStoreTest, AResetForgetsValuesRoundsAndPushes) {
  Make(KvMode::kSync, 2, /*step=*/5);
  EXPECT_FALSE(Push(0, 5, 1));
  store_->Reset();
  EXPECT_EQ(store_->rounds().highest, 0);
  EXPECT_FALSE(store_->Activate(3, 3).ok()) << "nothing is assigned";
}

TEST_F(PartStoreTest, AnOpenRoundNamesWhoIsMissing) {
  Make(KvMode::kSync, 3);
  EXPECT_FALSE(store_->OldestOpenRound());
  Push(1, 0, 1);
  const std::optional<OpenRound> round = store_->OldestOpenRound();
  ASSERT_TRUE(round);
  EXPECT_EQ(round->step, 0);
  EXPECT_THAT(round->missing, ElementsAre(0, 2));
}

TEST_F(PartStoreTest, SyncDoesNoRoundFromTheEndOnAndForgetsWhatWasPushedForIt) {
  Make(KvMode::kSync, 2);
  Push(0, 0, 1);
  ASSERT_TRUE(Push(1, 0, 1));
  EXPECT_FALSE(Push(1, 1, 5));
  ASSERT_TRUE(store_->EndAt(1).ok());
  EXPECT_FALSE(store_->OldestOpenRound());
  EXPECT_FALSE(Push(0, 1, 5));
  EXPECT_FALSE(Push(1, 1, 5));
  EXPECT_EQ(store_->global_step(), 1);
  EXPECT_THAT(Values(store_->Read(0, 0)), ElementsAre(9, 19, 29));
}

TEST_F(PartStoreTest, SyncCannotEndBeforeWhatIsDone) {
  Make(KvMode::kSync, 1);
  ASSERT_TRUE(Push(0, 0, 1));
  ASSERT_TRUE(Push(0, 1, 1));
  const absl::Status status = store_->EndAt(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'w' is at step 2"));
  EXPECT_TRUE(Push(0, 2, 1));
}

TEST_F(PartStoreTest, ActivationNamesWhatWasNotAssigned) {
  OptimizerConfig config;
  config.name = "momentum";
  const std::vector<ParameterSpec> specs = {{.name = "w", .shape = Shape({3}), .trainable = true}};
  PartStore store(specs, PlaceParameters(specs, 1), 0, KvMode::kSync, 1, *MakeOptimizer(config), config);
  store.Assign(0, 0, Floats({1, 2, 3}));
  EXPECT_THAT(std::string(store.Activate(0, 0).message()), HasSubstr("'w' part 0"));
  store.Assign(0, 1, Floats({0, 0, 0}));
  EXPECT_TRUE(store.Activate(0, 0).ok());
  store.ForgetAssigned();
  EXPECT_FALSE(store.Activate(0, 0).ok());
}

TEST_F(PartStoreTest, ARestartedWorkerIsToldTheStepThatIsNotWhole) {
  Make(KvMode::kAsync, 2, /*step=*/7);
  EXPECT_EQ(store_->NextStepOf(0), 4) << "7 steps were shared evenly";
  EXPECT_EQ(store_->NextStepOf(1), 3);
  store_->SetPosition(1, 2);
  Push(1, 2, 1);
  EXPECT_EQ(store_->NextStepOf(1), 3);
  EXPECT_EQ(store_->global_step(), 7) << "worker 1 had done 2 steps, not 3";
}

// A trainable "w" and a moving statistic "m", a float each.
std::unique_ptr<PartStore> StoreWithStatistics(KvMode mode) {
  OptimizerConfig config;
  config.name = "sgd";
  config.learning_rate = 1;
  const std::vector<ParameterSpec> specs = {{.name = "w", .shape = Shape({1}), .trainable = true},
                                            {.name = "m", .shape = Shape({1}), .trainable = false}};
  auto store = std::make_unique<PartStore>(specs, PlaceParameters(specs, 1), 0, mode, 2, *MakeOptimizer(config), config);
  for (const int part : {0, 1}) store->Assign(part, 0, FloatPayload({10}));
  EXPECT_TRUE(store->Activate(0, 0).ok());
  return store;
}

TEST(PartStoreStatistics, SyncTakesTheMeanOfTheWorkersNextValues) {
  const std::unique_ptr<PartStore> store = StoreWithStatistics(KvMode::kSync);
  EXPECT_FALSE(store->Push(1, 0, 0, FloatPayload({4})));
  const std::optional<PushAnswer> answer = store->Push(1, 1, 0, FloatPayload({7}));
  ASSERT_TRUE(answer);
  EXPECT_THAT(ValuesOf(answer->values), ElementsAre(5.5F));
  EXPECT_EQ(store->global_step(), 0) << "a step is its trainable parts";
  EXPECT_EQ(store->counts().steps, 0);
}

TEST(PartStoreStatistics, SyncTakesTheMeanOfTheWorkersThatHadExamples) {
  const std::unique_ptr<PartStore> store = StoreWithStatistics(KvMode::kSync);
  PushedGradient empty;
  empty.addends = 0;
  EXPECT_FALSE(store->Push(1, 0, 0, empty));
  const std::optional<PushAnswer> answer = store->Push(1, 1, 0, FloatPayload({7}));
  ASSERT_TRUE(answer);
  EXPECT_THAT(ValuesOf(answer->values), ElementsAre(7));
}

TEST(PartStoreStatistics, SyncTakesTheMeanOfTheDevicesThatHadExamples) {
  const std::unique_ptr<PartStore> store = StoreWithStatistics(KvMode::kSync);
  PushedGradient of_three = FloatPayload({6});
  of_three.addends = 3;
  EXPECT_FALSE(store->Push(1, 0, 0, std::move(of_three)));
  const std::optional<PushAnswer> answer = store->Push(1, 1, 0, FloatPayload({4}));
  ASSERT_TRUE(answer);
  EXPECT_THAT(ValuesOf(answer->values), ElementsAre(2.5F));
}

TEST(PartStoreStatistics, AsyncTakesTheLastNextValueAndCountsTrainablePartsOnly) {
  const std::unique_ptr<PartStore> store = StoreWithStatistics(KvMode::kAsync);
  std::optional<PushAnswer> answer = store->Push(1, 0, 0, FloatPayload({4}));
  ASSERT_TRUE(answer);
  EXPECT_THAT(ValuesOf(answer->values), ElementsAre(4));
  EXPECT_EQ(store->global_step(), 0);
  answer = store->Push(0, 0, 0, FloatPayload({1}));
  ASSERT_TRUE(answer);
  EXPECT_THAT(ValuesOf(answer->values), ElementsAre(9));
  EXPECT_EQ(store->global_step(), 1);
}

}  // namespace
}  // namespace trainyard::engine
