#include "operator/trainingjob/left_progress.h"

#include <gtest/gtest.h>

#include "operator/trainingjob/reconciler_harness.h"

namespace trainyard::control {
namespace {

constexpr char kLeft[] = R"({"step": 12, "totalSteps": 20, "examplesPerSecond": 90, "etaSeconds": 3})";

Pod Ended(int index, const std::string& message, const std::string& owner = "job-uid") {
  Pod pod = MakePod(Role::kWorker, index).Exited(143, message).Build();
  pod.meta.controller.uid = owner;
  return pod;
}

TEST(LeftProgressTest, TheReportersMessageCountsWithoutItsPace) {
  const TrainingJob job = MakeJob().Replicas("worker", 2).Build();
  LeftProgress left;
  EXPECT_FALSE(left.Of(job));
  left.Note(job.meta.Key(), Ended(1, kLeft));
  EXPECT_FALSE(left.Of(job)) << "worker-1 is no reporter";
  left.Note(job.meta.Key(), Ended(0, kLeft, "uid-of-an-earlier-job"));
  EXPECT_FALSE(left.Of(job));
  left.Note(job.meta.Key(), Ended(0, kLeft));
  left.Note(job.meta.Key(), Ended(0, "out of memory"));
  left.Note(job.meta.Key(), MakePod(Role::kWorker, 0).Build());
  left.Note(job.meta.Key(), MakePod(Role::kWorker, 1).Ready().Build());
  ASSERT_TRUE(left.Of(job));
  EXPECT_EQ(left.Of(job)->step, 12);
  EXPECT_EQ(left.Of(job)->percent, 60);
  EXPECT_FALSE(left.Of(job)->examples_per_second);
  EXPECT_FALSE(left.Of(job)->eta_seconds);
  left.Forget(job.meta.Key());
  EXPECT_FALSE(left.Of(job));
}

TEST(LeftProgressTest, AChiefThatRunsAgainHasLeftNothing) {
  const TrainingJob job = MakeJob().Replicas("worker", 1).Build();
  LeftProgress left;
  left.Note(job.meta.Key(), Ended(0, kLeft));
  left.Note(job.meta.Key(), MakePod(Role::kWorker, 0).Ready().Build());
  EXPECT_FALSE(left.Of(job));
}

class LeftProgressOfJobTest : public ReconcilerTest {};

TEST_F(LeftProgressOfJobTest, StatusHasItThoughThePodIsGoneBeforeTheJobIsLookedAt) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"runPolicy", {{"suspend", true}}}}}});
  const nlohmann::json ended = {{"exitCode", 143}, {"reason", "Error"}, {"message", kLeft}};
  const nlohmann::json container = {{"name", "trainer"}, {"state", {{"terminated", ended}}}};
  server_.Edit(kPods, "default", "mnist-worker-0", {{"status", {{"phase", "Failed"}, {"containerStatuses", {container}}}}});
  process_->Sync();
  server_.Remove(kPods, "default", "mnist-worker-0");
  process_->Settle();
  EXPECT_EQ(Status()["phase"], "Suspended");
  EXPECT_EQ(Status()["progress"]["step"], 12);
  const int writes = server_.Writes();
  process_->Settle();
  EXPECT_EQ(server_.Writes(), writes) << "it is told once";
  server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"runPolicy", {{"suspend", false}}}}}});
  process_->Settle();
  RunsReady();
  EXPECT_EQ(Status()["phase"], "Running");
  EXPECT_EQ(Status()["progress"]["step"], 12) << "until the new chief answers";
}

}  // namespace
}  // namespace trainyard::control
