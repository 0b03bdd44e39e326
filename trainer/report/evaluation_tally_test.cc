#include "trainer/report/evaluation_tally.h"

#include <gtest/gtest.h>

#include <limits>

namespace trainyard::engine {
namespace {

Evaluation At(int64_t step, double loss, double accuracy) {
  return {.step = step, .epoch = step / 10, .metrics = {{"loss", loss}, {"accuracy", accuracy}}};
}

TEST(EvaluationTally, HasTheBestByLossAndTheLastWithTheirSeconds) {
  EvaluationTally tally(EvaluateConfig{}, CheckpointConfig{});
  tally.Add(At(10, 0.5, 0.9), absl::Milliseconds(1500));
  tally.Add(At(20, 0.7, 0.95), absl::Seconds(2));
  const EvaluatorRecord record = tally.Record(0);
  EXPECT_EQ(record.evaluations, 2);
  EXPECT_EQ(record.metric, "loss");
  EXPECT_EQ(record.best->step, 10);
  EXPECT_EQ(record.best->epoch, 1);
  EXPECT_EQ(record.best->seconds, 1.5);
  EXPECT_EQ(record.last->step, 20);
  EXPECT_EQ(record.last->metrics.at("accuracy"), 0.95);
}

TEST(EvaluationTally, TheBestIsByTheJobsMetric) {
  CheckpointConfig checkpoint;
  checkpoint.keep_best = MetricRule{.metric = "accuracy"};
  EvaluationTally tally(EvaluateConfig{}, checkpoint);
  tally.Add(At(10, 0.5, 0.9), std::nullopt);
  tally.Add(At(20, 0.7, 0.95), std::nullopt);
  tally.Add(At(30, 0.7, std::numeric_limits<double>::quiet_NaN()), std::nullopt);
  EXPECT_EQ(tally.Record(0).metric, "accuracy");
  EXPECT_EQ(tally.Record(0).best->step, 20);
  EXPECT_FALSE(tally.Record(0).best->seconds.has_value());
}

TEST(EvaluationTally, EvaluationsOfALineThatWasGivenUpDoNotCount) {
  EvaluationTally tally(EvaluateConfig{}, CheckpointConfig{});
  tally.Add(At(10, 0.5, 0.9), std::nullopt);
  tally.Add(At(20, 0.1, 0.9), std::nullopt);
  tally.Add(At(30, 0.2, 0.9), std::nullopt);
  tally.Add(At(20, 0.6, 0.9), std::nullopt);
  EXPECT_EQ(tally.Record(0).evaluations, 2);
  EXPECT_EQ(tally.Record(0).best->step, 10);
  EXPECT_EQ(tally.Record(0).last->step, 20);
}

TEST(EvaluationTally, WithoutEvaluationsThereIsNeitherBestNorLast) {
  const EvaluatorRecord record = EvaluationTally(EvaluateConfig{}, CheckpointConfig{}).Record(0);
  EXPECT_EQ(record.evaluations, 0);
  EXPECT_FALSE(record.best.has_value());
  EXPECT_FALSE(record.last.has_value());
}

}  // namespace
}  // namespace trainyard::engine
