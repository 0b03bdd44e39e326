#include "operator/page/job_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

PodList Pods(const std::vector<MakePod>& makers) {
  PodList pods;
  for (const MakePod& maker : makers) pods.push_back(std::make_shared<const Pod>(maker.Build()));
  return pods;
}

TEST(JobView, AJobThatTrainsShowsItsProgressAndWhatHoldsIt) {
  const TrainingJob job = MakeJob()
                              .Replicas("worker", 3)
                              .Set("/status", {{"phase", "Running"},
                                               {"replicaStatuses", {{"worker", {{"ready", 2}}}}},
                                               {"restarts", 1},
                                               {"disruptions", 2},
                                               {"stragglers", {"worker-2"}},
                                               {"progress", {{"step", 7}, {"totalSteps", 10}, {"percent", 70.0}, {"loss", 0.5}}},
                                               {"conditions", {{{"type", "Stalled"}, {"status", "True"}, {"reason", "Unschedulable"}}}}})
                              .Build();
  const json summary = SummaryOf(job, LossCurve());
  EXPECT_EQ(summary.at("phase"), "Running");
  EXPECT_EQ(summary.at("ready"), 2);
  EXPECT_EQ(summary.at("desired"), 3);
  EXPECT_EQ(summary.at("restarts"), 3);
  EXPECT_EQ(summary.at("percent"), 70.0);
  EXPECT_EQ(summary.at("stragglers"), 1);
  EXPECT_EQ(summary.at("stalled"), "Unschedulable");
}

TEST(JobView, AJobThatNobodyHasLookedAtYetIsPending) {
  const json summary = SummaryOf(MakeJob().Build(), LossCurve());
  EXPECT_EQ(summary.at("phase"), "Pending");
  EXPECT_FALSE(summary.contains("step"));
  EXPECT_FALSE(summary.contains("curve"));
}

TEST(JobView, EveryReplicaHasARowWithItsNodeRestartsAndEnd) {
  const TrainingJob job = MakeJob().Replicas("worker", 4).Set("/status", {{"replicaStatuses", {{"worker", {{"completed", "3"}}}}}}).Build();
  MakePod waiting(Role::kWorker, 1);
  waiting.Waiting("ImagePullBackOff");
  const json rows = ReplicaRows(job, Pods({MakePod(Role::kWorker, 0).Ready().RestartedByKubelet(2, 137), waiting}));
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[0].at("replica"), "worker-0");
  EXPECT_EQ(rows[0].at("node"), "node-1");
  EXPECT_EQ(rows[0].at("restarts"), 2);
  EXPECT_EQ(rows[0].at("endedBefore").at("exitCode"), 137);
  EXPECT_EQ(rows[1].at("waiting"), json({{"reason", "ImagePullBackOff"}, {"message", "because"}}));
  EXPECT_EQ(rows[2].at("state"), "Absent");
  EXPECT_EQ(rows[3].at("state"), "Completed");
}

TEST(JobView, APodThatWasEvictedSaysWhy) {
  const json rows = ReplicaRows(MakeJob().Replicas("worker", 1).Build(), Pods({MakePod(Role::kWorker, 0).Evicted()}));
  EXPECT_EQ(rows[0].at("waiting").at("reason"), "Evicted");
}

TEST(JobView, TenThousandReplicasAreABoundedPage) {
  const json detail = DetailOf(MakeJob().Replicas("worker", 10'000).Build(), {}, LossCurve());
  EXPECT_EQ(detail.at("replicas").size(), 1000);
  EXPECT_EQ(detail.at("hosts").at("worker").size(), 1000);
  EXPECT_EQ(detail.at("more"), 9000);
}

}  // namespace
}  // namespace trainyard::control
