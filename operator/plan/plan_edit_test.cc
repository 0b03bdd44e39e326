// Suspending, resuming and editing a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/conditions.h"
#include "operator/plan/plan.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(PlanEdit, SuspendingDeletesEveryPodAndResumingStartsAfreshOnceTheyAreGone) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Edits(OneServerTwoWorkers().Policy("suspend", true));
  Plan plan = world.Look();
  EXPECT_THAT(Deleted(plan), SizeIs(3));
  EXPECT_THAT(EventReasons(plan), ElementsAre("Suspended"));
  EXPECT_EQ(world.status().phase, JobPhase::kSuspended);
  EXPECT_FALSE(world.status().start_time);
  world.Settle();
  EXPECT_TRUE(world.Look().Empty());

  world.Has(MakePod(Role::kWorker, 1).Ready().Terminating()).Passes(absl::Seconds(10)).Edits(OneServerTwoWorkers());
  plan = world.Look();
  EXPECT_THAT(Created(plan), IsEmpty()) << "a pod from before still ends";
  EXPECT_EQ(ReasonOf(world, kSuspended), "Resuming");
  world.Loses(Role::kWorker, 1);
  plan = world.Look();
  EXPECT_THAT(Created(plan), SizeIs(3));
  EXPECT_THAT(EventReasons(plan), ElementsAre("Resumed"));
  EXPECT_EQ(world.status().start_time, kStart + absl::Seconds(10));
  EXPECT_EQ(world.status().disruptions, 0);
  world.RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

TEST(PlanEdit, AResumedJobStartsWhateverRestartedBefore) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Loses(Role::kWorker, 0).Settle().RunsReady();
  EXPECT_EQ(world.status().disruptions, 1);
  world.Passes(absl::Seconds(5)).Edits(OneServerTwoWorkers().Policy("suspend", true)).Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kSuspended);
  world.Passes(absl::Seconds(5)).Edits(OneServerTwoWorkers()).Settle();
  EXPECT_FALSE(world.status().IsTrue(kRestarting)) << world.status().Find(kRestarting)->message;
  EXPECT_NE(world.status().phase, JobPhase::kRestarting);
  world.RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

TEST(PlanEdit, AStoppedJobTakesTheStepThatItsChiefHasLeft) {
  for (const bool fails : {false, true}) {
    const MakeJob job = OneServerTwoWorkers().Policy("activeDeadlineSeconds", 100);
    World world(job);
    world.extra.progress = Progress{.step = 7, .examples_per_second = 100, .eta_seconds = 60};
    world.RunsReady().Look();
    if (fails) {
      world.Passes(absl::Seconds(100)).Look();
    } else {
      world.Edits(MakeJob(job).Policy("suspend", true)).Look();
    }
    EXPECT_EQ(world.status().phase, fails ? JobPhase::kFailed : JobPhase::kSuspended);
    EXPECT_EQ(world.status().progress->step, 7);
    world.extra.progress = Progress{.step = 12, .percent = 60};
    world.Settle();
    EXPECT_EQ(world.status().progress->step, 12);
    EXPECT_EQ(world.status().progress->percent, 60);
    world.Passes(absl::Minutes(1));
    EXPECT_TRUE(world.Look().Empty()) << "once";
  }
}

TEST(PlanEdit, AJobThatDoesNotTrainHasNeitherASpeedNorATimeLeft) {
  for (const bool fails : {false, true}) {
    World world(OneServerTwoWorkers().Policy("backoffLimit", 0));
    world.extra.progress = Progress{.step = 7, .examples_per_second = 100, .eta_seconds = 60};
    world.RunsReady().Look();
    EXPECT_EQ(world.status().progress->eta_seconds, 60);
    if (fails) {
      world.Exits(Role::kWorker, 1, 137).Settle();
    } else {
      world.Edits(OneServerTwoWorkers().Policy("backoffLimit", 0).Policy("suspend", true)).Settle();
    }
    EXPECT_EQ(world.status().phase, fails ? JobPhase::kFailed : JobPhase::kSuspended);
    EXPECT_EQ(world.status().progress->step, 7);
    EXPECT_FALSE(world.status().progress->eta_seconds);
    EXPECT_FALSE(world.status().progress->examples_per_second);
  }
}

TEST(PlanEdit, AJobSuspendedFromBirthHasNoStartTimeAndNoPods) {
  World world(OneServerTwoWorkers().Policy("suspend", true));
  EXPECT_THAT(world.Look().creations, IsEmpty());
  EXPECT_FALSE(world.status().start_time);
  EXPECT_EQ(world.status().phase, JobPhase::kSuspended);
}

// The trainer's process may miss the signal while it starts, and trains on for its grace.
World ScaledDownAndUpAgain() {
  World world(OneServerTwoWorkers());
  world.RunsReady().Edits(OneServerTwoWorkers().Replicas("worker", 1));
  EXPECT_THAT(Deleted(world.Look()), ElementsAre("mnist-worker-1"));
  world.Has(MakePod(Role::kWorker, 1).Ready().Terminating()).Settle();
  world.Passes(absl::Seconds(9)).Edits(OneServerTwoWorkers());
  return world;
}

TEST(PlanEdit, APodThatAScaleDownEndsIsNoDisruptionWhereItsReplicaIsWantedAgain) {
  World world = ScaledDownAndUpAgain();
  EXPECT_THAT(EventReasons(world.Look()), ElementsAre("Scaled"));
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).active, 1);
  world.Has(MakePod(Role::kWorker, 1).Ready().Terminating());
  EXPECT_TRUE(world.Look().Empty()) << "the pod still ends";
  world.Loses(Role::kWorker, 1);
  EXPECT_THAT(Created(world.Look()), ElementsAre("mnist-worker-1"));
  world.RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_EQ(world.status().disruptions, 0);
  EXPECT_EQ(world.status().restarts, 0);
}

TEST(PlanEdit, APodThatAScaleDownEndsDoesNotCompleteItsReplica) {
  const Pod ended = MakePod(Role::kWorker, 1).Exited(0).Terminating().Build();
  const auto ends = [&](Pod& pod) { pod = ended; };
  for (const bool at_once : {true, false}) {
    World world = ScaledDownAndUpAgain();
    if (!at_once) world.Look();
    world.Has(MakePod(Role::kWorker, 1).Ready().Terminating()).ChangePod(Role::kWorker, 1, ends).Look();
    EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).succeeded, 0);
    world.Loses(Role::kWorker, 1);
    EXPECT_THAT(Created(world.Look()), ElementsAre("mnist-worker-1"));
    EXPECT_EQ(world.status().disruptions, 0);
  }
}

TEST(PlanEdit, APodThatAScaleDownEndsIsNotCountedInAJobThatEndsBeforeIt) {
  World world = ScaledDownAndUpAgain();
  world.Look();
  world.Exits(Role::kWorker, 0, 0).Has(MakePod(Role::kWorker, 1).Exited(0).Terminating()).Look();
  EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).succeeded, 1);
  world.Settle();
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).succeeded, 1) << "also after the end";
}

TEST(PlanEdit, AnInvalidJobIsToldWithItsFieldAndGetsNothing) {
  const char* applied = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
  World world(OneServerTwoWorkers().Set(applied, R"({"spec": {"training": {"optimizr": "sgd"}}})"));
  const Plan plan = world.Look();
  EXPECT_THAT(plan.creations, IsEmpty());
  EXPECT_EQ(world.status().phase, JobPhase::kInvalid);
  EXPECT_THAT(world.status().Find(kInvalid)->message, HasSubstr("spec.training.optimizr: unknown field; did you mean \"optimizer\"?"));
  EXPECT_THAT(EventReasons(plan), ElementsAre("Invalid"));
  EXPECT_TRUE(world.Look().Empty()) << "it is told once";
  world.Edits(OneServerTwoWorkers());
  EXPECT_THAT(Created(world.Look()), SizeIs(3));
  EXPECT_FALSE(world.status().IsTrue(kInvalid));
}

TEST(PlanEdit, HostsThatChangedWhileTheJobWasInvalidOrSuspendedAreNumberedWhenItGoesOn) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Edits(OneServerTwoWorkers().Replicas("worker", 3).Policy("suspend", true)).Settle();
  world.Edits(OneServerTwoWorkers().Replicas("worker", 3)).Settle();
  EXPECT_EQ(world.status().hosts_epoch, 2);
  world.Edits(OneServerTwoWorkers().Replicas("worker", 4).Policy("suspend", true)).Settle();
  world.Edits(OneServerTwoWorkers().Replicas("worker", 4).Set("/spec/storage/mountPath", "/")).Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kInvalid);
  world.EditsWithoutGeneration(OneServerTwoWorkers().Replicas("worker", 4)).Settle();
  EXPECT_EQ(world.status().hosts_epoch, 3);
}

TEST(PlanEdit, AnEditThatMakesNoSenseIsToldAndARunningJobGoesOnAsBefore) {
  const auto bad = [] { return OneServerTwoWorkers().Replicas("worker", 9).Policy("scheduling", {{"gang", "Nobody"}}); };
  World world(OneServerTwoWorkers());
  world.RunsReady().Edits(bad());
  Plan plan = world.Look();
  EXPECT_EQ(ReasonOf(world, kInvalid), "EditRefused");
  EXPECT_THAT(world.status().Find(kInvalid)->message, HasSubstr("spec.runPolicy.scheduling.gang: found \"Nobody\""));
  EXPECT_THAT(EventReasons(plan), ElementsAre("EditRefused"));
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_THAT(Created(plan), IsEmpty()) << "as many workers as before";
  EXPECT_TRUE(world.Settle().Look().Empty()) << "it is told once";
  world.Exits(Role::kWorker, 1, 137).Settle();
  EXPECT_EQ(world.status().restarts, 1);
  EXPECT_EQ(world.pods().size(), 3U) << "restarts work";
  world.Edits(bad().Policy("suspend", true)).Look();
  EXPECT_EQ(world.status().phase, JobPhase::kSuspended) << "suspending works";
}

TEST(PlanEdit, AnEditThatPutsARefusedOneRightIsFollowed) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Edits(OneServerTwoWorkers().Policy("backoffLimit", "many")).Settle();
  EXPECT_TRUE(world.status().IsTrue(kInvalid));
  world.Edits(OneServerTwoWorkers().Replicas("worker", 3)).Settle();
  EXPECT_FALSE(world.status().IsTrue(kInvalid));
  EXPECT_EQ(world.pods().size(), 4U);
}

TEST(PlanEdit, AFieldOfANewerVersionIsWarnedOfOnceAndTheJobGoesOn) {
  World world(OneServerTwoWorkers().Set("/spec/runPolicy/elastic", true));
  const Plan plan = world.Look();
  EXPECT_THAT(EventReasons(plan), ElementsAre("UnknownField"));
  EXPECT_THAT(plan.events[0].note, HasSubstr("spec.runPolicy.elastic: unknown field"));
  EXPECT_THAT(EventReasons(world.Look()), IsEmpty());
  world.RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

}  // namespace
}  // namespace trainyard::control
