#include "operator/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/base/timestamp.h"
#include "operator/plan/acceptance.h"
#include "operator/plan/conditions.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

MakeJob TwoServersFourWorkers() { return MakeJob().Replicas("ps", 2).Replicas("worker", 4).Claim("data"); }

TEST(Plan, ANewJobIsAcceptedAndGetsAllItsChildrenAtOnceWithStartPolicyAny) {
  World world(TwoServersFourWorkers().Policy("startPolicy", "Any"));
  const Plan plan = world.Look();
  EXPECT_THAT(Created(plan, ChildKind::kPod),
              UnorderedElementsAre("mnist-ps-0", "mnist-ps-1", "mnist-worker-0", "mnist-worker-1", "mnist-worker-2", "mnist-worker-3"));
  EXPECT_THAT(Created(plan, ChildKind::kService), ElementsAre("mnist"));
  EXPECT_THAT(Created(plan, ChildKind::kConfigMap), ElementsAre("mnist-cluster"));
  EXPECT_EQ(plan.status_timing, StatusTiming::kAfterChildren);
  EXPECT_EQ(world.status().phase, JobPhase::kPending);
  EXPECT_TRUE(world.status().IsTrue(kCreated));
  EXPECT_EQ(world.status().start_time, kStart);
  EXPECT_EQ(world.status().hosts_epoch, 1);
  EXPECT_TRUE(Accepts({}, plan.status.value()));
  EXPECT_THAT(plan.events, IsEmpty());
}

TEST(Plan, AJobWhoseFirstStatusWasNeverWrittenGetsItWithoutAnythingMadeTwice) {
  World world(TwoServersFourWorkers().Policy("startPolicy", "Any"));
  world.Look();
  const Plan plan = world.ForgetsStatus().Look();
  EXPECT_THAT(plan.creations, IsEmpty());
  EXPECT_EQ(plan.status_timing, StatusTiming::kAfterChildren);
  EXPECT_EQ(world.status().phase, JobPhase::kPending);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).active, 4);
  EXPECT_EQ(world.status().hosts_epoch, 1);
  EXPECT_EQ(world.status().start_time, kStart);
  EXPECT_TRUE(Accepts({}, plan.status.value()));
  EXPECT_THAT(plan.events, IsEmpty());
}

TEST(Plan, WhatIsCountedOrDeletedIsWrittenFirstEvenIfNoStatusWasWrittenYet) {
  World failed(OneServerTwoWorkers());
  failed.Look();
  failed.ForgetsStatus().Exits(Role::kWorker, 1, 143);
  EXPECT_EQ(failed.Look().status_timing, StatusTiming::kAtOnce);
  EXPECT_EQ(failed.status().restarts, 1);
  World scaled(OneServerTwoWorkers());
  scaled.Look();
  const Plan plan = scaled.ForgetsStatus().Edits(OneServerTwoWorkers().Replicas("worker", 1)).Look();
  EXPECT_THAT(Deleted(plan), ElementsAre("mnist-worker-1"));
  EXPECT_EQ(plan.status_timing, StatusTiming::kAtOnce);
}

TEST(Plan, HostListsThatChangeBeforeTheFirstStatusAreNumberedAnew) {
  World world(OneServerTwoWorkers());
  world.Look();
  const Plan plan = world.ForgetsStatus().Edits(OneServerTwoWorkers().Replicas("worker", 3)).Look();
  EXPECT_TRUE(plan.update_config);
  EXPECT_EQ(plan.status_timing, StatusTiming::kAtOnce);
  EXPECT_EQ(world.status().hosts_epoch, 2);
}

TEST(Plan, AJobUpToRunningCostsAtMostTwoUrgentStatusWritesAndThreeEvents) {
  World world(MakeJob().Replicas("ps", 2).Replicas("worker", 4).Policy("startPolicy", "Any"));
  Plan plan = world.Look();
  int urgent = plan.status_timing == StatusTiming::kSettled ? 0 : 1;
  size_t events = plan.events.size();
  size_t creates = plan.creations.size();
  for (const auto& [id, pod] : std::map(world.pods())) {
    world.ChangePod(id.role, id.index, [](Pod& changed) {
      changed.phase = PodPhase::kRunning;
      changed.ready = true;
    });
    plan = world.Look();
    urgent += plan.status_timing == StatusTiming::kSettled ? 0 : 1;
    events += plan.events.size();
    creates += plan.creations.size();
  }
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_EQ(urgent, 2);
  EXPECT_LE(events, 3U);
  EXPECT_EQ(creates, 8U);
  EXPECT_TRUE(world.Look().Empty()) << "a quiet job costs nothing";
}

TEST(Plan, WorkersWaitUntilEveryServerIsReady) {
  World world(TwoServersFourWorkers());
  EXPECT_THAT(Created(world.Look()), ElementsAre("mnist-ps-0", "mnist-ps-1"));
  world.Has(MakePod(Role::kPs, 0).Ready());
  EXPECT_THAT(Created(world.Look()), IsEmpty());
  world.Has(MakePod(Role::kPs, 1).Ready());
  EXPECT_THAT(Created(world.Look()), SizeIs(4));
}

TEST(Plan, AnMxNetSchedulerDoesNotWaitForItsServers) {
  World world(MakeJob().Framework("MXNet").Replicas("chief", 1).Replicas("ps", 1).Replicas("worker", 1));
  EXPECT_THAT(Created(world.Look()), ElementsAre("mnist-ps-0", "mnist-chief-0"));
}

TEST(Plan, RunningIsTrueWhenAllOfPsChiefAndWorkerAreReadyWhateverTheEvaluatorDoes) {
  World world(MakeJob().Replicas("ps", 1).Replicas("worker", 1).Replicas("chief", 1).Replicas("evaluator", 1).Policy("startPolicy", "Any"));
  world.Settle();
  for (const Role role : {Role::kPs, Role::kChief}) world.Has(MakePod(role, 0).Ready());
  world.Settle();
  EXPECT_FALSE(world.status().IsTrue(kRunning));
  world.Has(MakePod(Role::kWorker, 0).Ready()).Settle();
  EXPECT_TRUE(world.status().IsTrue(kRunning));
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

TEST(Plan, ScalingUpMakesTheNewWorkersAndNumbersTheHostListsAnew) {
  World world(OneServerTwoWorkers().ServicePerReplica());
  world.RunsReady().Edits(OneServerTwoWorkers().ServicePerReplica().Replicas("worker", 4));
  const Plan plan = world.Look();
  EXPECT_THAT(Created(plan), ElementsAre("mnist-worker-2", "mnist-worker-3"));
  EXPECT_THAT(Created(plan, ChildKind::kService), ElementsAre("mnist-worker-2", "mnist-worker-3"));
  EXPECT_TRUE(plan.update_config);
  EXPECT_EQ(world.status().hosts_epoch, 2);
  EXPECT_EQ(world.status().phase, JobPhase::kRunning) << "a running job that grows is no pending one";
  EXPECT_THAT(EventReasons(plan), ElementsAre("Scaled"));
}

TEST(Plan, ScalingDownDeletesPodsAndServicesBeyondTheNewCountAndIsNoDisruption) {
  World world(OneServerTwoWorkers().ServicePerReplica().Replicas("worker", 3));
  world.RunsReady().Edits(OneServerTwoWorkers().ServicePerReplica().Replicas("worker", 1));
  const Plan plan = world.Look();
  EXPECT_THAT(Deleted(plan), ElementsAre("mnist-worker-1", "mnist-worker-2"));
  EXPECT_THAT(Deleted(plan, ChildKind::kService), ElementsAre("mnist-worker-1", "mnist-worker-2"));
  EXPECT_TRUE(plan.update_config);
  world.Settle();
  EXPECT_EQ(world.status().disruptions, 0);
  EXPECT_EQ(world.status().hosts_epoch, 2);
  EXPECT_TRUE(world.status().IsTrue(kRunning));
}

TEST(Plan, AConfigMapEditedByHandIsPutRight) {
  World world(OneServerTwoWorkers());
  world.RunsReady();
  Observed observed = world.Seen();
  ConfigMap edited = *observed.config;
  edited.content_hash = "edited";
  edited.meta.resource_version += "0";
  observed.config = std::make_shared<const ConfigMap>(edited);
  const Plan plan = MakePlan(world.job(), observed, world.now());
  EXPECT_TRUE(plan.update_config);
  EXPECT_EQ(plan.status_timing, StatusTiming::kSettled) << "the hosts are the same: no new epoch";
}

TEST(Plan, AForeignManagedByGetsNeitherChildrenNorStatus) {
  World world(OneServerTwoWorkers().Set("/spec/managedBy", "example.com/other"));
  EXPECT_TRUE(world.Look().Empty());
}

TEST(Plan, AJobThatIsBeingDeletedIsLeftToTheGarbageCollectorAndItsStatusSaysWhatIsLeft) {
  const auto deleted = [](const char* finalizer) {
    return OneServerTwoWorkers().Set("/metadata/deletionTimestamp", FormatTimestamp(kStart)).Set("/metadata/finalizers", {finalizer});
  };
  World world(OneServerTwoWorkers());
  world.RunsReady().EditsWithoutGeneration(deleted("example.com/hold")).Look();
  EXPECT_TRUE(world.status().IsTrue(kRunning)) << "all replicas are ready as yet";
  Plan plan = world.Loses(Role::kWorker, 1).Look();
  EXPECT_THAT(plan.creations, testing::IsEmpty());
  EXPECT_THAT(plan.deletions, testing::IsEmpty());
  EXPECT_THAT(plan.events, testing::IsEmpty());
  EXPECT_EQ(plan.status_timing, StatusTiming::kSettled);
  EXPECT_EQ(world.status().message,
            "the job is being deleted, and no replica starts again; its finalizers are example.com/hold; it goes when their owner has "
            "removed them");
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).ready, 1);
  EXPECT_EQ(world.status().Find(kRunning)->reason, "BeingDeleted");
  EXPECT_TRUE(world.Look().Empty()) << "once";
  world.EditsWithoutGeneration(deleted("foregroundDeletion")).Look();
  EXPECT_EQ(world.status().message, "the job is being deleted, and no replica starts again; it goes when its children are gone");

  World ended(OneServerTwoWorkers());
  ended.RunsReady().Exits(Role::kWorker, 0, 0).Settle().EditsWithoutGeneration(deleted("example.com/hold"));
  EXPECT_TRUE(ended.Look().Empty()) << "how it ended stays";
}

TEST(Plan, TheDefaultImageIsFixedAtAJobsStartAndAgainWhenItResumes) {
  World world(OneServerTwoWorkers());
  world.Settle();
  EXPECT_EQ(world.status().image, "trainyard/trainer:0.1");
  TrainingJob upgraded = world.job();
  upgraded.spec.image = "trainyard/trainer:0.2";  // the operator's default is another one now
  EXPECT_FALSE(MakePlan(upgraded, world.Seen(), world.now()).status) << "the job keeps its image";
  Observed seen = world.Seen();
  for (auto& [id, pod] : seen.pods) {
    Pod old = *pod;
    old.main_image = "trainyard/trainer:0.1";
    pod = std::make_shared<const Pod>(old);
  }
  upgraded.status = {};  // the first operator was killed before it could write one
  EXPECT_EQ(MakePlan(upgraded, seen, world.now()).status->image, "trainyard/trainer:0.1");
  world.Edits(OneServerTwoWorkers().Policy("suspend", true)).Settle();
  EXPECT_EQ(world.status().image, "");
}

TEST(Plan, DecidingTwiceWithoutDoingDecidesTheSame) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Exits(Role::kWorker, 1, 1);
  const Plan first = world.Peek();
  const Plan again = world.Peek();
  EXPECT_EQ(first.status, again.status);
  EXPECT_EQ(first.deletions, again.deletions);
}

}  // namespace
}  // namespace trainyard::control
