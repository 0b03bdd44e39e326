#include "trainer/checkpoint/evaluation_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Feeds values of one metric, a step of 10 apart, and says after which of them the training stops
// (from 1; 0: never).
class Sequence {
 public:
  explicit Sequence(EarlyStoppingConfig stopping, CheckpointConfig checkpoint = {})
      : metric_(stopping.rule.metric), judge_({.every_epochs = 1, .early_stopping = std::move(stopping)}, checkpoint) {}

  int StopsAfter(std::initializer_list<double> values) {
    int count = 0;
    for (const double value : values) {
      ++count;
      const absl::StatusOr<EvaluationJudge::Verdict> verdict = judge_.Take({.step = 10 * count, .metrics = {{metric_, value}}});
      EXPECT_TRUE(verdict.ok()) << verdict.status();
      if (verdict->stop) return count;
    }
    return 0;
  }
  const EvaluationJudge& judge() const { return judge_; }

 private:
  const std::string metric_;
  EvaluationJudge judge_;
};

EarlyStoppingConfig Stopping(std::string metric, int64_t patience, double min_delta = 0, MetricMode mode = MetricMode::kAuto) {
  return {.rule = {.metric = std::move(metric), .mode = mode}, .patience = patience, .min_delta = min_delta};
}

TEST(EarlyStopping, WaitsForSoManyEvaluationsWithoutAnImprovement) {
  EXPECT_EQ(Sequence(Stopping("loss", 2)).StopsAfter({3, 2, 2.5, 2.2, 1}), 4);
  EXPECT_EQ(Sequence(Stopping("loss", 2)).StopsAfter({3, 2, 2.5, 1.9, 2, 2}), 6);
  EXPECT_EQ(Sequence(Stopping("loss", 3)).StopsAfter({3, 2, 2.5, 2.2}), 0);
}

TEST(EarlyStopping, AnEvaluationBehindTheStopTakesNothingBack) {
  EvaluationJudge judge({.every_epochs = 1, .early_stopping = Stopping("loss", 1)}, {.keep_best = MetricRule{.metric = "loss"}});
  int64_t step = 0;
  for (const double loss : {3.0, 3.5, 1.0}) ASSERT_TRUE(judge.Take({.step = ++step, .metrics = {{"loss", loss}}}).ok());
  EXPECT_TRUE(judge.stopped());
  EXPECT_EQ(judge.StopReason(), "loss has not improved on 3 (step 1) for 1 evaluation (earlyStopping.patience 1)");
  EXPECT_EQ(judge.best()->step, 3);
}

TEST(EarlyStopping, PatienceOfNoneStopsAtTheFirstEvaluationThatIsNotBetter) {
  EXPECT_EQ(Sequence(Stopping("loss", 0)).StopsAfter({3, 2, 2}), 3);
  EXPECT_EQ(Sequence(Stopping("loss", 0)).StopsAfter({3}), 0);
}

TEST(EarlyStopping, TheModeFollowsTheMetricUnlessItIsGiven) {
  EXPECT_EQ(Sequence(Stopping("accuracy", 1)).StopsAfter({0.5, 0.6, 0.6}), 3);
  EXPECT_EQ(Sequence(Stopping("perplexity", 1)).StopsAfter({9, 8, 8}), 3);
  EXPECT_EQ(Sequence(Stopping("loss", 1, 0, MetricMode::kMax)).StopsAfter({3, 2}), 2);
}

TEST(EarlyStopping, AChangeThatIsNotLargerThanMinDeltaIsNoImprovement) {
  EXPECT_EQ(Sequence(Stopping("loss", 2, 0.5)).StopsAfter({3, 2.5, 2.5}), 3);
  EXPECT_EQ(Sequence(Stopping("loss", 2, 0.5)).StopsAfter({3, 2.75, 2.25, 2.25}), 0);  // against the last improvement, not the last value
  EXPECT_EQ(Sequence(Stopping("accuracy", 2, 0.25)).StopsAfter({0.25, 0.5, 0.5}), 3);
}

TEST(EarlyStopping, WhatIsNoNumberIsNoImprovement) {
  EXPECT_EQ(Sequence(Stopping("loss", 2)).StopsAfter({kNaN, kNaN}), 2);
  EXPECT_EQ(Sequence(Stopping("loss", 2)).StopsAfter({kNaN, 3, kNaN, 2, kNaN}), 0);
}

TEST(EarlyStopping, TheReasonNamesMetricBestStepAndPatience) {
  Sequence loss(Stopping("loss", 2, 0.25));
  loss.StopsAfter({3, 2, 2, 1.9});
  EXPECT_EQ(loss.judge().StopReason(),
            "loss has not improved on 2 (step 20) by more than 0.25 for 2 evaluations (earlyStopping.patience 2)");
  Sequence accuracy(Stopping("accuracy", 1));
  accuracy.StopsAfter({0.5, 0.5});
  EXPECT_THAT(accuracy.judge().StopReason(), HasSubstr("accuracy has not improved on 0.5 (step 10) for 1 evaluation "));
  Sequence none(Stopping("loss", 1));
  none.StopsAfter({kNaN});
  EXPECT_THAT(none.judge().StopReason(), HasSubstr("loss was not a number for 1 evaluation"));
}

TEST(BestCheckpoint, IsTheBestWithoutMinDelta) {
  EarlyStoppingConfig stopping = Stopping("loss", 5, 1);
  stopping.restore_best = true;
  Sequence sequence(stopping);
  EXPECT_TRUE(sequence.judge().keeps_best());
  EXPECT_FALSE(sequence.judge().best());
  sequence.StopsAfter({3, 2.5, 2.75, 2.25, 2.5});
  EXPECT_EQ(sequence.judge().best(), (MetricTracker::Best{.step = 40, .value = 2.25}));
  EXPECT_EQ(sequence.judge().best_metric(), "loss");
}

TEST(BestCheckpoint, FollowsKeepBestAloneAndIsNotKeptUnlessSomebodyAsks) {
  EvaluationJudge judge({}, {.keep_best = MetricRule{.metric = "accuracy"}});
  EXPECT_TRUE(judge.Take({.step = 1, .metrics = {{"accuracy", 0.5}}})->best);
  EXPECT_FALSE(judge.Take({.step = 2, .metrics = {{"accuracy", 0.5}}})->best);
  EXPECT_TRUE(judge.Take({.step = 3, .metrics = {{"accuracy", 0.75}}})->best);
  EXPECT_FALSE(judge.stopped());
  EXPECT_FALSE(judge.restores_best());
  EXPECT_FALSE(EvaluationJudge({}, {}).keeps_best());
  EXPECT_FALSE(EvaluationJudge({.every_epochs = 1, .early_stopping = Stopping("loss", 1)}, {}).keeps_best());
}

TEST(BestCheckpoint, ItsManifestTellsWhichOfTwoIsBetter) {
  EvaluationJudge low({}, {.keep_best = MetricRule{.metric = "accuracy"}});
  EvaluationJudge high = low;
  ASSERT_TRUE(low.Take({.step = 1, .metrics = {{"accuracy", 0.5}}}).ok());
  ASSERT_TRUE(high.Take({.step = 2, .metrics = {{"accuracy", 0.75}}}).ok());
  EXPECT_TRUE(low.IsBetter(high.BestState()));
  EXPECT_FALSE(high.IsBetter(low.BestState()));
  EXPECT_FALSE(high.IsBetter(high.BestState()));
  EXPECT_FALSE(low.IsBetter({{"bestMetric", "loss"}, {"bestValue", "9"}}));
  EXPECT_FALSE(low.IsBetter({{"bestMetric", "accuracy"}, {"bestValue", "much"}}));
  EXPECT_FALSE(low.IsBetter({}));
}

TEST(EvaluationJudge, AMetricThatWasNotEvaluatedIsNamed) {
  EvaluationJudge judge({.early_stopping = Stopping("perplexity", 1)}, {});
  const absl::Status status = judge.Take({.step = 7, .metrics = {{"accuracy", 1}, {"loss", 1}}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 7 has no metric 'perplexity', it has accuracy, loss"));
}

}  // namespace
}  // namespace trainyard::engine
