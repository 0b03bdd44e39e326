#include "operator/trainingjob/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/trainingjob/conditions.h"
#include "operator/trainingjob/test_makers.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

MakeJob TwoServersFourWorkers() { return MakeJob().Replicas("ps", 2).Replicas("worker", 4).Claim("data"); }
MakeJob OneServerTwoWorkers() { return MakeJob().Replicas("ps", 1).Replicas("worker", 2).Claim("data").Policy("startPolicy", "Any"); }

MakeJob Gang() { return OneServerTwoWorkers().Policy("scheduling", {{"gang", "Volcano"}}); }
MakeJob Mpi() { return MakeJob().Framework("MPI").Replicas("chief", 1).Replicas("worker", 2).Claim("data"); }

std::string ReasonOf(const World& world, std::string_view condition) {
  const Condition* found = world.status().Find(condition);
  return found == nullptr ? "" : found->reason;
}

TEST(Plan, ANewJobIsAcceptedAndGetsAllItsChildrenAtOnceWithStartPolicyAny) {
  World world(TwoServersFourWorkers().Policy("startPolicy", "Any"));
  const Plan plan = world.Look();
  EXPECT_THAT(Created(plan, ChildKind::kPod),
              UnorderedElementsAre("mnist-ps-0", "mnist-ps-1", "mnist-worker-0", "mnist-worker-1", "mnist-worker-2", "mnist-worker-3"));
  EXPECT_THAT(Created(plan, ChildKind::kService), SizeIs(6));
  EXPECT_THAT(Created(plan, ChildKind::kConfigMap), ElementsAre("mnist-cluster"));
  EXPECT_EQ(plan.status_timing, StatusTiming::kAfterChildren);
  EXPECT_EQ(world.status().phase, JobPhase::kPending);
  EXPECT_TRUE(world.status().IsTrue(kCreated));
  EXPECT_EQ(world.status().start_time, kStart);
  EXPECT_EQ(world.status().hosts_epoch, 1);
  EXPECT_THAT(EventReasons(plan), ElementsAre("Created"));
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
  EXPECT_THAT(EventReasons(plan), ElementsAre("Created"));
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
  EXPECT_EQ(creates, 13U);
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
  World world(OneServerTwoWorkers());
  world.RunsReady().Edits(OneServerTwoWorkers().Replicas("worker", 4));
  const Plan plan = world.Look();
  EXPECT_THAT(Created(plan), ElementsAre("mnist-worker-2", "mnist-worker-3"));
  EXPECT_THAT(Created(plan, ChildKind::kService), ElementsAre("mnist-worker-2", "mnist-worker-3"));
  EXPECT_TRUE(plan.update_config);
  EXPECT_EQ(world.status().hosts_epoch, 2);
  EXPECT_EQ(world.status().phase, JobPhase::kRunning) << "a running job that grows is no pending one";
  EXPECT_THAT(EventReasons(plan), ElementsAre("Scaled"));
}

TEST(Plan, ScalingDownDeletesPodsAndServicesBeyondTheNewCountAndIsNoDisruption) {
  World world(OneServerTwoWorkers().Replicas("worker", 3));
  world.RunsReady().Edits(OneServerTwoWorkers().Replicas("worker", 1));
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
  observed.config = std::make_shared<const ConfigMap>(edited);
  const Plan plan = MakePlan(world.job(), observed, world.now());
  EXPECT_TRUE(plan.update_config);
  EXPECT_EQ(plan.status_timing, StatusTiming::kSettled) << "the hosts are the same: no new epoch";
}

TEST(Plan, TheChiefsSuccessIsTheJobsAndServersAlwaysStop) {
  for (const char* policy : {"None", "Running", "All"}) {
    World world(OneServerTwoWorkers().Policy("cleanPodPolicy", policy));
    world.RunsReady().Exits(Role::kWorker, 0, 0);
    const Plan plan = world.Look();
    EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
    EXPECT_TRUE(world.status().IsTrue(kSucceeded));
    EXPECT_EQ(world.status().completion_time, kStart);
    EXPECT_EQ(plan.status_timing, StatusTiming::kAtOnce);
    const std::vector<std::string> deleted = Deleted(plan);
    EXPECT_THAT(deleted, ::testing::Contains("mnist-ps-0")) << policy;
    EXPECT_EQ(std::count(deleted.begin(), deleted.end(), "mnist-worker-1"), std::string(policy) == "None" ? 0 : 1);
    EXPECT_EQ(std::count(deleted.begin(), deleted.end(), "mnist-worker-0"), std::string(policy) == "All" ? 1 : 0);
    EXPECT_THAT(Deleted(plan, ChildKind::kService), SizeIs(std::string(policy) == "All" ? 3 : 0));
    EXPECT_THAT(Deleted(plan, ChildKind::kConfigMap), SizeIs(std::string(policy) == "All" ? 1 : 0));
  }
}

TEST(Plan, AJobThatHasSucceededChangesNoMore) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Exits(Role::kWorker, 0, 0).Settle();
  const TrainingJobStatus ended = world.status();
  world.Loses(Role::kWorker, 0).Passes(absl::Hours(1)).Settle();
  EXPECT_EQ(world.status(), ended);
  EXPECT_THAT(world.pods(), IsEmpty());
}

TEST(Plan, WithAllWorkersEveryWorkerMustCompleteAndACompletedOneWhosePodIsGoneIsNotMadeAgain) {
  World world(OneServerTwoWorkers().Policy("successPolicy", "AllWorkers"));
  world.RunsReady().Exits(Role::kWorker, 1, 0).Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).completed, "1");
  world.Loses(Role::kWorker, 1);
  EXPECT_THAT(Created(world.Look()), IsEmpty());
  world.Exits(Role::kWorker, 0, 0).Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
}

TEST(Plan, ASidecarThatGoesOnDoesNotHoldUpASuccess) {
  World world(OneServerTwoWorkers());
  world.RunsReady().ChangePod(Role::kWorker, 0, [](Pod& pod) {
    pod.containers[0].terminated = Termination{.exit_code = 0};
    pod.containers.push_back({.name = "sidecar", .running_since = kStart});
  });
  world.Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
}

TEST(Plan, TheChiefsLastWordsBecomeTheFinalProgress) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Exits(Role::kWorker, 0, 0, R"({"step": 560, "totalSteps": 560, "metrics": {"accuracy": 0.97}})").Settle();
  ASSERT_TRUE(world.status().progress);
  EXPECT_EQ(world.status().progress->step, 560);
  EXPECT_EQ(world.status().progress->percent, 100);
  EXPECT_EQ(world.status().progress->metrics.at("accuracy"), 0.97);
}

TEST(Plan, ADeadlineFailsTheJobWithoutAnyOutsideEventAndStopsItsPodsUnderEveryPolicy) {
  World world(OneServerTwoWorkers().Policy("activeDeadlineSeconds", 100).Policy("cleanPodPolicy", "None"));
  world.RunsReady();
  EXPECT_EQ(world.Peek().look_again_at, kStart + absl::Seconds(100));
  world.Passes(absl::Seconds(100));
  const Plan plan = world.Look();
  EXPECT_EQ(ReasonOf(world, kFailed), "DeadlineExceeded");
  EXPECT_THAT(Deleted(plan), SizeIs(3));
}

TEST(Plan, AFinishedJobIsDeletedAfterItsTimeToLive) {
  World world(OneServerTwoWorkers().Policy("ttlSecondsAfterFinished", 60));
  world.RunsReady().Exits(Role::kWorker, 0, 0).Settle();
  EXPECT_EQ(world.Peek().look_again_at, kStart + absl::Seconds(60));
  EXPECT_FALSE(world.Peek().delete_job);
  world.Passes(absl::Seconds(60));
  EXPECT_TRUE(world.Peek().delete_job);
}

TEST(Plan, ATimeToLiveOfZeroDeletesOnlyAfterTheEndWasWritten) {
  World world(OneServerTwoWorkers().Policy("ttlSecondsAfterFinished", 0));
  world.RunsReady().Exits(Role::kWorker, 0, 0);
  EXPECT_FALSE(world.Peek().delete_job);
  world.Look();
  EXPECT_TRUE(world.Peek().delete_job);
}

TEST(Plan, SuspendingDeletesEveryPodAndResumingStartsAfreshOnceTheyAreGone) {
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

TEST(Plan, AJobSuspendedFromBirthHasNoStartTimeAndNoPods) {
  World world(OneServerTwoWorkers().Policy("suspend", true));
  EXPECT_THAT(world.Look().creations, IsEmpty());
  EXPECT_FALSE(world.status().start_time);
  EXPECT_EQ(world.status().phase, JobPhase::kSuspended);
}

TEST(Plan, AForeignManagedByGetsNeitherChildrenNorStatus) {
  World world(OneServerTwoWorkers().Set("/spec/managedBy", "example.com/other"));
  EXPECT_TRUE(world.Look().Empty());
}

TEST(Plan, AJobThatIsBeingDeletedIsLeftToTheGarbageCollector) {
  World world(OneServerTwoWorkers().Set("/metadata/deletionTimestamp", FormatTimestamp(kStart)));
  EXPECT_TRUE(world.Look().Empty());
}

TEST(Plan, AnInvalidJobIsToldWithItsFieldAndGetsNothing) {
  World world(OneServerTwoWorkers().Set("/spec/training/optimizr", "sgd"));
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

TEST(Plan, HostsThatChangedWhileTheJobWasInvalidOrSuspendedAreNumberedWhenItGoesOn) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Edits(OneServerTwoWorkers().Replicas("worker", 3).Policy("suspend", true)).Settle();
  world.Edits(OneServerTwoWorkers().Replicas("worker", 3)).Settle();
  EXPECT_EQ(world.status().hosts_epoch, 2);
  const char* applied = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
  world.Edits(OneServerTwoWorkers().Replicas("worker", 4).Set(applied, R"({"spec": {"workers": 4}})")).Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kInvalid);
  world.EditsWithoutGeneration(OneServerTwoWorkers().Replicas("worker", 4)).Settle();
  EXPECT_EQ(world.status().hosts_epoch, 3);
}

TEST(Plan, ATakenNameIsReportedOnceAndTheRestGoesOn) {
  World world(OneServerTwoWorkers());
  world.extra.taken[{ChildKind::kService, "mnist-worker-1"}] = "not controlled by this job";
  const Plan plan = world.Look();
  EXPECT_THAT(Created(plan), SizeIs(3));
  EXPECT_THAT(Created(plan, ChildKind::kService), ElementsAre("mnist-ps-0", "mnist-worker-0"));
  EXPECT_EQ(ReasonOf(world, kStalled), "NameTaken");
  EXPECT_THAT(world.status().Find(kStalled)->message, HasSubstr("Service mnist-worker-1 exists and is not controlled by this job"));
  EXPECT_THAT(EventReasons(plan), ElementsAre("Created", "NameTaken"));
  EXPECT_EQ(plan.look_again_at, kStart + absl::Seconds(30));
  EXPECT_THAT(world.Look().events, IsEmpty());
  world.extra.taken.clear();
  EXPECT_THAT(Created(world.Look(), ChildKind::kService), ElementsAre("mnist-worker-1"));
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(Plan, LeftoversOfAnEarlierJobAreWaitedForWithoutAWarning) {
  World world(OneServerTwoWorkers());
  world.extra.leftovers.insert("mnist-worker-1");
  const Plan plan = world.Look();
  EXPECT_THAT(Created(plan), ElementsAre("mnist-ps-0", "mnist-worker-0"));
  EXPECT_THAT(EventReasons(plan), ElementsAre("Created"));
  EXPECT_EQ(plan.look_again_at, kStart + absl::Seconds(5));
}

TEST(Plan, APodThatCannotStartMakesTheJobStalledAfterAWhile) {
  World world(OneServerTwoWorkers());
  world.Settle().Has(MakePod(Role::kWorker, 1).Waiting("ImagePullBackOff"));
  EXPECT_EQ(world.Look().look_again_at, kStart + absl::Seconds(30));
  EXPECT_FALSE(world.status().IsTrue(kStalled));
  world.Passes(absl::Seconds(30)).Look();
  EXPECT_EQ(ReasonOf(world, kStalled), "ImagePullBackOff");
  EXPECT_THAT(world.status().message, HasSubstr("worker-1 cannot start: ImagePullBackOff: because"));
  world.AllReady().Look();
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(Plan, AStepThatDoesNotMoveMakesARunningJobStalled) {
  World world(OneServerTwoWorkers());
  world.RunsReady();
  world.extra.progress = Progress{.step = 5};
  EXPECT_EQ(world.Look().look_again_at, kStart + absl::Minutes(15));
  world.Passes(absl::Minutes(15)).Look();
  EXPECT_EQ(ReasonOf(world, kStalled), "NoProgress");
  world.extra.progress->step = 6;
  world.Look();
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(Plan, ProgressIsASmallChangeThatMayWait) {
  World world(OneServerTwoWorkers());
  world.RunsReady();
  world.extra.progress = Progress{.step = 5};
  const Plan plan = world.Peek();
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status_timing, StatusTiming::kSettled);
}

TEST(Plan, APodTerminatingOnADownNodeIsForceDeletedAfterTheGraceAndWaitedForOtherwise) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Has(MakePod(Role::kWorker, 1).Ready().Terminating(kStart));
  EXPECT_THAT(Deleted(world.Look()), IsEmpty()) << "its node is well: wait";
  world.extra.down_nodes.insert("node-1");
  EXPECT_EQ(world.Peek().look_again_at, kStart + absl::Seconds(60));
  world.Passes(absl::Seconds(60));
  const Plan plan = world.Peek();
  ASSERT_THAT(plan.deletions, SizeIs(1));
  EXPECT_TRUE(plan.deletions[0].force);
}

TEST(Plan, HeadlessServicesAreOneForTheJob) {
  World world(OneServerTwoWorkers().Set("/spec/network/services", "Headless"));
  EXPECT_THAT(Created(world.Look(), ChildKind::kService), ElementsAre("mnist"));
  EXPECT_THAT(Created(world.Look(), ChildKind::kService), IsEmpty());
}

TEST(Plan, AnEphemeralOutputAndATemplateThatWinsAreToldOnce) {
  World world(
      MakeJob()
          .Replicas("worker", 1)
          .Template("worker", {{"spec", {{"containers", {{{"name", "t"}, {"env", {{{"name", "TRAINYARD_ROLE"}, {"value", "x"}}}}}}}}}}));
  EXPECT_THAT(EventReasons(world.Look()), ElementsAre("Created", "EphemeralOutput", "TemplateWins"));
  EXPECT_THAT(world.Look().events, IsEmpty());
}

TEST(Plan, MpiNeedsItsKeysBeforeItsPods) {
  World world(MakeJob().Framework("MPI").Replicas("chief", 1).Replicas("worker", 2));
  const Plan plan = world.Look();
  const auto is = [](ChildKind kind) { return [kind](const ChildRef& child) { return child.kind == kind; }; };
  const auto secret = std::find_if(plan.creations.begin(), plan.creations.end(), is(ChildKind::kSecret));
  const auto pod = std::find_if(plan.creations.begin(), plan.creations.end(), is(ChildKind::kPod));
  ASSERT_NE(secret, plan.creations.end());
  EXPECT_LT(secret, pod);
}

TEST(Plan, AGangsPodGroupIsMadeWithItsPodsAndFollowsTheScale) {
  World world(Gang());
  EXPECT_THAT(Created(world.Peek(), ChildKind::kPodGroup), ElementsAre("mnist"));
  world.RunsReady();
  EXPECT_TRUE(world.Peek().Empty());
  for (const int workers : {1, 4}) {
    world.Edits(Gang().Replicas("worker", workers));
    EXPECT_THAT(Ensured(world.Look(), ChildKind::kPodGroup), ElementsAre("mnist")) << workers << " workers";
    EXPECT_EQ(world.Seen().unwatched.at(ChildKind::kPodGroup).min_member, 1 + workers);
    world.RunsReady();
    EXPECT_TRUE(world.Peek().Empty());
  }
}

TEST(Plan, AGangThatNeedsMoreThanItsServersStartsTogetherBecauseTheyWouldNotStartAlone) {
  const MakeJob job = MakeJob().Replicas("ps", 1).Replicas("worker", 2);
  EXPECT_THAT(Created(World(MakeJob(job).Policy("scheduling", {{"gang", "Volcano"}})).Look()), SizeIs(3));
  EXPECT_THAT(Created(World(MakeJob(job).Policy("scheduling", {{"gang", "Volcano"}, {"minAvailable", 1}})).Look()),
              ElementsAre("mnist-ps-0"));
}

TEST(Plan, AGangWhoseMinimumIsGivenKeepsItWhenScaledAndFollowsItsEdit) {
  World world(Gang().Policy("scheduling", {{"gang", "Coscheduling"}, {"minAvailable", 2}}));
  world.RunsReady().Edits(Gang().Replicas("worker", 1).Policy("scheduling", {{"gang", "Coscheduling"}, {"minAvailable", 2}}));
  EXPECT_THAT(world.Look().ensure, IsEmpty());
  world.Edits(Gang().Replicas("worker", 1).Policy("scheduling", {{"gang", "Coscheduling"}, {"minAvailable", 1}}));
  EXPECT_THAT(Ensured(world.Look(), ChildKind::kPodGroup), ElementsAre("mnist"));
}

TEST(Plan, WhatNoCacheHoldsIsLookedUpOnceAfterARestartOfTheOperator) {
  World gang(Gang());
  gang.RunsReady().Restarts();
  EXPECT_THAT(Ensured(gang.Look(), ChildKind::kPodGroup), ElementsAre("mnist"));
  EXPECT_TRUE(gang.Look().Empty());
  World mpi(Mpi());
  mpi.RunsReady().Restarts();
  EXPECT_THAT(Ensured(mpi.Look(), ChildKind::kSecret), ElementsAre("mnist-ssh"));
  EXPECT_TRUE(mpi.Look().Empty());
}

TEST(Plan, AForeignPodGroupIsLeftAsItIs) {
  World world(Gang());
  world.IsForeign(ChildKind::kPodGroup).RunsReady().Edits(Gang().Replicas("worker", 1));
  EXPECT_THAT(world.Look().ensure, IsEmpty());
  world.Exits(Role::kWorker, 0, 0);
  EXPECT_THAT(Deleted(world.Look(), ChildKind::kPodGroup), IsEmpty());
}

TEST(Plan, AFinishedJobHoldsNoPodGroupWhateverThePolicyUnlessPodsOfItGoOn) {
  for (const char* policy : {"None", "Running", "All"}) {
    World world(Gang().Policy("cleanPodPolicy", policy));
    world.RunsReady().Exits(Role::kWorker, 0, 0);
    const bool kept = std::string(policy) == "None";
    EXPECT_THAT(Deleted(world.Look(), ChildKind::kPodGroup), SizeIs(kept ? 0 : 1)) << policy;
    EXPECT_TRUE(world.Settle().Peek().Empty()) << policy;
    if (!kept) continue;
    world.Exits(Role::kWorker, 1, 0);
    EXPECT_THAT(Deleted(world.Look(), ChildKind::kPodGroup), ElementsAre("mnist")) << "the last pod that was kept has ended";
    EXPECT_TRUE(world.Settle().Peek().Empty());
  }
}

TEST(Plan, TheKeysOfAnMpiJobGoAtItsEndUnlessPodsAreKept) {
  for (const char* policy : {"None", "Running", "All"}) {
    World world(Mpi().Policy("cleanPodPolicy", policy));
    world.RunsReady().Exits(Role::kChief, 0, 0);
    EXPECT_THAT(Deleted(world.Look(), ChildKind::kSecret), SizeIs(std::string(policy) == "None" ? 0 : 1)) << policy;
    world.Settle().Restarts().Settle();
    EXPECT_TRUE(world.Peek().Empty()) << policy;
  }
}

TEST(Plan, ASuspendedJobHoldsNoPodGroupAndResumingMakesItAgain) {
  World world(Gang());
  world.RunsReady().Edits(Gang().Policy("suspend", true));
  EXPECT_THAT(Deleted(world.Look(), ChildKind::kPodGroup), ElementsAre("mnist"));
  EXPECT_TRUE(world.Settle().Peek().Empty());
  world.Edits(Gang());
  EXPECT_THAT(Created(world.Look(), ChildKind::kPodGroup), ElementsAre("mnist"));
}

TEST(Plan, AnOrphanThatIsToBeAdoptedIsNotMadeAgain) {
  World world(OneServerTwoWorkers());
  world.extra.adopt.push_back({ChildKind::kPod, "mnist-worker-0", "u", "1", ReplicaId{Role::kWorker, 0}});
  const Plan plan = world.Peek();
  EXPECT_THAT(Created(plan), ElementsAre("mnist-ps-0", "mnist-worker-1"));
  EXPECT_THAT(plan.adopt, SizeIs(1));
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
