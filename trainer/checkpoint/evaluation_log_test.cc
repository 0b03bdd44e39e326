#include "trainer/checkpoint/evaluation_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "trainer/base/fake_clock.h"
#include "trainer/base/file.h"
#include "trainer/checkpoint/evaluation_book.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EvaluationLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "evaluation_log_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
  }
  EvaluationLog Open() {
    absl::StatusOr<EvaluationLog> log = EvaluationLog::Open(dir_);
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  static LoggedEvaluation Loss(int64_t step, double loss, std::string checkpoint = "") {
    return {.evaluation = {.step = step, .epoch = step / 10, .metrics = {{"loss", loss}}}, .checkpoint = std::move(checkpoint)};
  }
  static std::vector<int64_t> Steps(const EvaluationLog& log) {
    std::vector<int64_t> steps;
    for (const LoggedEvaluation& logged : log.evaluations()) steps.push_back(logged.evaluation.step);
    return steps;
  }

  std::string dir_;
};

TEST_F(EvaluationLogTest, IsReadAsItWasWritten) {
  EXPECT_THAT(Open().evaluations(), IsEmpty());
  EvaluationLog log = Open();
  ASSERT_TRUE(log.Add(Loss(10, 0.1, "abc")).ok());
  ASSERT_TRUE(log.Add(Loss(20, std::numeric_limits<double>::quiet_NaN())).ok());
  const EvaluationLog again = Open();
  ASSERT_EQ(again.evaluations().size(), 2U);
  EXPECT_EQ(again.evaluations()[0], Loss(10, 0.1, "abc"));
  EXPECT_TRUE(std::isnan(again.evaluations()[1].evaluation.metrics.at("loss")));
  EXPECT_TRUE(again.Contains(10, "abc"));
  EXPECT_FALSE(again.Contains(10, "abd"));
  EXPECT_FALSE(again.Contains(20, "abc"));
}

TEST_F(EvaluationLogTest, ANewLineOfTrainingReplacesTheOneThatWasGivenUp) {
  EvaluationLog log = Open();
  for (const int64_t step : {10, 20, 30}) ASSERT_TRUE(log.Add(Loss(step, 1, "old")).ok());
  ASSERT_TRUE(log.Add(Loss(20, 2, "new")).ok());
  EXPECT_THAT(Steps(Open()), ElementsAre(10, 20));
  EXPECT_TRUE(Open().Contains(20, "new"));
}

TEST_F(EvaluationLogTest, ALogThatWasOpenedAgainGoesOnBehindTheStepsThatItKeeps) {
  EvaluationLog first = Open();
  for (const int64_t step : {10, 20, 30}) ASSERT_TRUE(first.Add(Loss(step, 1, "old")).ok());
  EvaluationLog again = Open();
  again.ForgetAfter(20);
  ASSERT_TRUE(again.Add(Loss(40, 2, "new")).ok());
  again.ForgetAfter(10);
  ASSERT_TRUE(again.Add(Loss(50, 3, "newer")).ok());
  EXPECT_THAT(Open().evaluations(), ElementsAre(Loss(10, 1, "old"), Loss(50, 3, "newer")));
}

TEST_F(EvaluationLogTest, KeepsTheNewestTenThousand) {
  ASSERT_TRUE(MakeDirectories(dir_).ok());
  std::string text = R"({"evaluations": [{"step": 1, "epoch": 0, "metrics": {"loss": 1}, "checkpoint": ""})";
  for (int step = 2; step <= 10'000; ++step) {
    text += R"(, {"epoch": 0, "metrics": {"loss": 1}, "checkpoint": "", "step": )" + std::to_string(step) + "}";
  }
  ASSERT_TRUE(ReplaceFile(dir_ + "/evaluations.json", text + "]}").ok());
  EvaluationLog log = Open();
  ASSERT_TRUE(log.Add(Loss(20'000, 2)).ok());
  const std::vector<int64_t> steps = Steps(Open());
  ASSERT_EQ(steps.size(), 10'000U);
  EXPECT_EQ(steps.front(), 2);
  EXPECT_EQ(steps.back(), 20'000);
}

TEST_F(EvaluationLogTest, AFileThatIsNoLogIsNamed) {
  ASSERT_TRUE(MakeDirectories(dir_).ok());
  const std::string deep = R"({"evaluations": [], "more": )" + std::string(64, '[') + std::string(64, ']') + "}";
  for (const char* text : {"", "[]", deep.c_str(), R"({"evaluations": [{"step": 1e300, "epoch": 0, "metrics": {}, "checkpoint": ""}]})",
                           "{\"evaluations\": [{\"step\": 1}]}",
                           "{\"evaluations\": [{\"step\": 1, \"epoch\": 0, \"metrics\": {\"loss\": \"x\"}, \"checkpoint\": \"\"}]}"}) {
    ASSERT_TRUE(ReplaceFile(dir_ + "/evaluations.json", text).ok());
    const absl::Status status = EvaluationLog::Open(dir_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("evaluations.json is not a log of evaluations")) << text;
  }
}

TrainingConfig Config(bool evaluator) {
  TrainingConfig config;
  config.evaluator = evaluator;
  config.evaluate.early_stopping = EarlyStoppingConfig{.patience = 2};
  config.checkpoint.keep_best = MetricRule{};
  return config;
}

TEST_F(EvaluationLogTest, AResumedChiefGoesOnWithThePatienceOfTheStepThatItResumesFrom) {
  FakeClock clock;
  const TrainingConfig config = Config(/*evaluator=*/false);
  std::unique_ptr<EvaluationBook> first = *EvaluationBook::Open(config, dir_, 0, clock);
  for (const auto& [step, loss] : {std::pair{10, 3.0}, {20, 1.0}, {30, 2.0}, {40, 2.0}}) {
    ASSERT_TRUE(first->Add(Loss(step, loss).evaluation).ok());
  }
  EXPECT_TRUE(first->judge().stopped());
  EXPECT_TRUE((*EvaluationBook::Open(config, dir_, 40, clock))->judge().stopped());

  std::unique_ptr<EvaluationBook> resumed = *EvaluationBook::Open(config, dir_, 35, clock);
  EXPECT_FALSE(resumed->judge().stopped());
  EXPECT_EQ(resumed->judge().best(), (MetricTracker::Best{.step = 20, .value = 1}));
  EXPECT_EQ(resumed->Find(30)->metrics.at("loss"), 2);
  EXPECT_EQ(resumed->Find(40), nullptr);
  const absl::StatusOr<EvaluationJudge::Verdict> verdict = resumed->Add(Loss(40, 1.5).evaluation);
  ASSERT_TRUE(verdict.ok());
  EXPECT_TRUE(verdict->stop);
  EXPECT_EQ(Open().evaluations().back(), Loss(40, 1.5));
}

TEST_F(EvaluationLogTest, TheChiefTakesWhatTheEvaluatorSaysOfItsOwnCheckpointsOnly) {
  FakeClock clock;
  const TrainingConfig config = Config(/*evaluator=*/true);
  std::unique_ptr<EvaluationBook> book = *EvaluationBook::Open(config, dir_, 10, clock);
  book->Expect(20, "mine");
  EvaluationLog evaluator = Open();
  ASSERT_TRUE(evaluator.Add(Loss(20, 1, "of a line that was given up")).ok());
  EXPECT_THAT(*book->TakeNew(), IsEmpty());
  ASSERT_TRUE(evaluator.Add(Loss(20, 3, "mine")).ok());
  EXPECT_THAT(*book->TakeNew(), IsEmpty());  // the file is not looked at all the time
  clock.Advance(absl::Seconds(1));
  EXPECT_THAT(*book->TakeNew(), ElementsAre(Loss(20, 3).evaluation));
  EXPECT_THAT(*book->TakeNew(/*at_once=*/true), IsEmpty());
  EXPECT_EQ(book->judge().best(), (MetricTracker::Best{.step = 20, .value = 3}));
  // Its own last evaluation decides too, but the log is the evaluator's.
  EXPECT_TRUE(book->Add(Loss(30, 2).evaluation)->best);
  EXPECT_THAT(Steps(Open()), ElementsAre(20));
}

}  // namespace
}  // namespace trainyard::engine
