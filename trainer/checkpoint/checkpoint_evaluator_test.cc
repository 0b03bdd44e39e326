#include "trainer/checkpoint/checkpoint_evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/file.h"
#include "trainer/checkpoint/finished_mark.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

ParameterSet ModelOfOne(float value) {
  ParameterSet set({{"dense/kernel", {2, 3}}});
  std::ranges::fill(set.values(0), value);
  return set;
}

// A model of one number, whose loss is that number.
class CheckpointEvaluatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "checkpoint_evaluator_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
    config_.model.name = "one";
    config_.checkpoint.keep_best = MetricRule{};
  }
  void Save(int64_t step, float loss, const std::map<std::string, std::string>& state = {}, SamplerPosition position = {}) {
    const ParameterSet parameters = ModelOfOne(loss);
    std::vector<CheckpointShard> shards = {{.name = "parameters", .tensors = {}}};
    AppendTensors(parameters, "", shards[0].tensors);
    ASSERT_TRUE(
        CheckpointStore(dir_, 3)
            .Save({.step = step, .position = position, .fingerprint = parameters.Fingerprint(), .model = "one", .state = state}, shards)
            .ok());
  }
  CheckpointEvaluator Make(const std::string& vocabulary = "") {
    return {config_, CheckpointStore(dir_, 3), ModelOfOne(0), vocabulary, [this](const ParameterSet& parameters) {
              ++evaluations_;
              return absl::StatusOr<std::map<std::string, double>>({{"loss", parameters.values(0)[0]}});
            }};
  }
  // "step loss", or "" where there is nothing to evaluate.
  static std::string Next(CheckpointEvaluator& evaluator) {
    const absl::StatusOr<std::optional<Evaluation>> next = evaluator.Next();
    EXPECT_TRUE(next.ok()) << next.status();
    if (!next.ok() || !*next) return "";
    return std::to_string((*next)->step) + " " + std::to_string(static_cast<int>((*next)->metrics.at("loss")));
  }
  int64_t BestStep() {
    const auto best = CheckpointStore(dir_, 3).LoadBest(ModelOfOne(0).Fingerprint(), "one");
    EXPECT_TRUE(best.ok()) << best.status();
    return best.ok() && *best ? (*best)->info().step : -1;
  }

  std::string dir_;
  TrainingConfig config_;
  int evaluations_ = 0;
};

TEST_F(CheckpointEvaluatorTest, TheEpochIsThatOfTheLastStepAsTheChiefCountsIt) {
  CheckpointEvaluator evaluator = Make();
  const auto epoch_of_next = [&] { return (**evaluator.Next()).epoch; };
  Save(7, 5, {}, {.epoch = 0, .offset = 28});
  EXPECT_EQ(epoch_of_next(), 0);
  Save(10, 5, {}, {.epoch = 1, .offset = 0});
  EXPECT_EQ(epoch_of_next(), 0);
  Save(11, 5, {}, {.epoch = 1, .offset = 4});
  EXPECT_EQ(epoch_of_next(), 1);
}

TEST_F(CheckpointEvaluatorTest, EvaluatesEachCheckpointOnceInTheirOrderAndKeepsTheBest) {
  CheckpointEvaluator evaluator = Make();
  EXPECT_EQ(Next(evaluator), "");  // the folder is not there yet
  Save(10, 5);
  Save(20, 3);
  EXPECT_EQ(Next(evaluator), "10 5");
  EXPECT_EQ(BestStep(), 10);
  EXPECT_EQ(Next(evaluator), "20 3");
  EXPECT_EQ(BestStep(), 20);
  EXPECT_EQ(Next(evaluator), "");
  Save(30, 4);
  EXPECT_EQ(Next(evaluator), "30 4");
  EXPECT_EQ(BestStep(), 20);
  for (const int64_t step : {40, 50, 60}) Save(step, 9);  // rotation takes the best one's folder, not the copy
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/step-20"));
  EXPECT_EQ(BestStep(), 20);
}

TEST_F(CheckpointEvaluatorTest, OneThatWasRestartedGoesOn) {
  Save(10, 3);
  CheckpointEvaluator first = Make();
  EXPECT_EQ(Next(first), "10 3");
  Save(20, 5);
  CheckpointEvaluator second = Make();
  EXPECT_EQ(Next(second), "20 5");
  EXPECT_EQ(BestStep(), 10);
  EXPECT_EQ(evaluations_, 2);
}

TEST_F(CheckpointEvaluatorTest, ACheckpointOfANewLineOfTrainingIsEvaluatedAgain) {
  CheckpointEvaluator evaluator = Make();
  Save(10, 5);
  EXPECT_EQ(Next(evaluator), "10 5");
  Save(10, 4);
  EXPECT_EQ(Next(evaluator), "10 4");
}

TEST_F(CheckpointEvaluatorTest, ATornCheckpointIsPassedOver) {
  CheckpointEvaluator evaluator = Make();
  Save(10, 5);
  Save(20, 4);
  ASSERT_TRUE(ReplaceFile(dir_ + "/step-10/parameters.safetensors", "torn").ok());
  EXPECT_EQ(Next(evaluator), "20 4");
  EXPECT_EQ(Next(evaluator), "");
}

TEST_F(CheckpointEvaluatorTest, TheChiefsBetterLastCheckpointStaysTheBest) {
  CheckpointEvaluator evaluator = Make();
  Save(10, 5);
  const ParameterSet parameters = ModelOfOne(1);
  std::vector<CheckpointShard> shards = {{.name = "parameters", .tensors = {}}};
  AppendTensors(parameters, "", shards[0].tensors);
  const CheckpointInfo info{
      .step = 20, .fingerprint = parameters.Fingerprint(), .model = "one", .state = {{"bestMetric", "loss"}, {"bestValue", "1"}}};
  ASSERT_TRUE(CheckpointStore(dir_, 3).SaveBest(info, shards).ok());
  EXPECT_EQ(Next(evaluator), "10 5");
  EXPECT_EQ(BestStep(), 20);
}

TEST_F(CheckpointEvaluatorTest, ACheckpointOfAnotherVocabularyIsAnError) {
  CheckpointEvaluator evaluator = Make("aa");
  Save(10, 5, {{kVocabularyState, "aa"}});
  EXPECT_EQ(Next(evaluator), "10 5");
  Save(20, 4, {{kVocabularyState, "bb"}});
  const absl::Status status = evaluator.Next().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("step-20 was trained with another vocabulary (SHA-256 bb) than this evaluator's text gives (SHA-256 aa)"));
}

TEST_F(CheckpointEvaluatorTest, ACheckpointOfAnotherModelIsAnError) {
  Save(10, 5);
  CheckpointEvaluator evaluator(config_, CheckpointStore(dir_, 3), ParameterSet({{"other/kernel", {2}}}), "", nullptr);
  const absl::Status status = evaluator.Next().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step-10 is of model 'one'"));
}

TEST_F(CheckpointEvaluatorTest, ItIsFinishedWhenTheChiefSaysSoInThisRun) {
  const absl::Time start = absl::UnixEpoch();
  ASSERT_TRUE(MakeDirectories(dir_).ok());
  ASSERT_TRUE(MarkFinished(dir_, 7).ok());
  EXPECT_EQ(*FinishedStep(dir_), 7);
  CheckpointEvaluator evaluator = Make();
  EXPECT_FALSE(*evaluator.Finished(start, absl::Minutes(10)));  // may be an earlier run's
  EXPECT_FALSE(*evaluator.Finished(start + absl::Minutes(9), absl::Minutes(10)));
  EXPECT_TRUE(*evaluator.Finished(start + absl::Minutes(10), absl::Minutes(10)));

  CheckpointEvaluator another = Make();
  EXPECT_FALSE(*another.Finished(start, absl::Minutes(10)));
  ASSERT_TRUE(ClearFinished(dir_).ok());
  ASSERT_TRUE(ClearFinished(dir_).ok());
  EXPECT_FALSE(*another.Finished(start, absl::Minutes(10)));
  ASSERT_TRUE(MarkFinished(dir_, 8).ok());
  EXPECT_TRUE(*another.Finished(start, absl::Minutes(10)));
}

}  // namespace
}  // namespace trainyard::engine
