// How a job ends, and what goes with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "operator/plan/conditions.h"
#include "operator/plan/plan.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

TEST(PlanEnd, TheChiefsSuccessIsTheJobsAndServersAlwaysStop) {
  for (const char* policy : {"None", "Running", "All"}) {
    World world(OneServerTwoWorkers().Policy("cleanPodPolicy", policy));
    world.RunsReady().Exits(Role::kWorker, 0, 0);
    Plan plan = world.Look();
    EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
    EXPECT_TRUE(world.status().IsTrue(kSucceeded));
    EXPECT_EQ(world.status().completion_time, kStart);
    EXPECT_EQ(plan.status_timing, StatusTiming::kAtOnce);
    if (std::string(policy) != "All") {
      EXPECT_THAT(Deleted(plan), IsEmpty()) << policy << ": they may be about to end by themselves";
      EXPECT_EQ(plan.requeue_at, kStart + absl::Seconds(30)) << policy;
      plan = world.Passes(absl::Seconds(30)).Look();
    }
    const std::vector<std::string> deleted = Deleted(plan);
    EXPECT_THAT(deleted, ::testing::Contains("mnist-ps-0")) << policy;
    EXPECT_EQ(std::count(deleted.begin(), deleted.end(), "mnist-worker-1"), std::string(policy) == "None" ? 0 : 1);
    EXPECT_EQ(std::count(deleted.begin(), deleted.end(), "mnist-worker-0"), std::string(policy) == "All" ? 1 : 0);
    EXPECT_THAT(Deleted(plan, ChildKind::kService), SizeIs(std::string(policy) == "All" ? 1 : 0));
    EXPECT_THAT(Deleted(plan, ChildKind::kConfigMap), SizeIs(std::string(policy) == "All" ? 1 : 0));
  }
}

TEST(PlanEnd, APodWhoseContainerEndedWithZeroStaysForItsLogWhateverItsPhase) {
  World world(OneServerTwoWorkers());
  world.RunsReady().ChangePod(Role::kWorker, 0, [](Pod& pod) { pod.containers[0].terminated = Termination{.exit_code = 0}; });
  EXPECT_THAT(Deleted(world.Look()), IsEmpty());
  EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
  world.Passes(absl::Seconds(30)).Settle();
  EXPECT_THAT(world.pods(), ElementsAre(::testing::Key(ReplicaId{Role::kWorker, 0})));
}

TEST(PlanEnd, AFailedPodStaysForItsLogWhateverItsPhaseAndTheMessageNamesTheCommand) {
  const auto fails = [](const MakeJob& job, const std::function<void(Pod&)>& change) {
    World world(job);
    world.RunsReady().ChangePod(Role::kWorker, 1, [&](Pod& pod) {
      pod.containers[0] = {.name = "trainer", .terminated = Termination{.exit_code = 1}};  // its phase is still Running
      change(pod);
    });
    world.Settle();
    EXPECT_EQ(world.status().phase, JobPhase::kFailed);
    const bool stays = world.pods().contains({Role::kWorker, 1});
    const bool logs = world.status().message.find("kubectl logs mnist-worker-1") != std::string::npos;
    const bool kept = world.status().message.find("kubectl get tj mnist -n default -o jsonpath={.status.failure};") != std::string::npos;
    EXPECT_EQ(logs, stays) << world.status().message;
    EXPECT_EQ(kept, !stays) << world.status().message;
    return stays;
  };
  EXPECT_TRUE(fails(OneServerTwoWorkers(), [](Pod&) {}));
  EXPECT_FALSE(fails(OneServerTwoWorkers().Policy("cleanPodPolicy", "All"), [](Pod&) {}));
  EXPECT_FALSE(fails(OneServerTwoWorkers(), [](Pod& pod) { pod.containers.push_back({.name = "sidecar", .running_since = kStart}); }));
  EXPECT_FALSE(fails(OneServerTwoWorkers().Restart("worker", "OnFailure").Policy("backoffLimit", 0), [](Pod&) {}))
      << "it would be restarted";
}

TEST(PlanEnd, AReplicaThatEndsByItselfWithinTheGraceStaysForItsLog) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Exits(Role::kWorker, 0, 0).Settle().Passes(absl::Seconds(2));
  world.Exits(Role::kWorker, 1, 0).Exits(Role::kPs, 0, 0).Settle().Passes(absl::Hours(1)).Settle();
  EXPECT_THAT(world.pods(), SizeIs(3));
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).active, 0);
}

TEST(PlanEnd, APodThatASidecarKeepsRunningIsStoppedAfterTheGrace) {
  World world(OneServerTwoWorkers());
  world.RunsReady().ChangePod(Role::kWorker, 0, [](Pod& pod) {
    pod.containers[0].terminated = Termination{.exit_code = 0};
    pod.containers.push_back({.name = "sidecar", .running_since = kStart});
  });
  EXPECT_THAT(Deleted(world.Look()), IsEmpty());
  EXPECT_THAT(Deleted(world.Passes(absl::Seconds(30)).Look()), ::testing::Contains("mnist-worker-0"));
}

TEST(PlanEnd, ServersOfOtherFrameworksStopAsSoonAsNobodyTrains) {
  World world(OneServerTwoWorkers().Framework("TensorFlow"));
  world.RunsReady().Exits(Role::kWorker, 0, 0);
  EXPECT_THAT(Deleted(world.Look()), IsEmpty()) << "worker-1 still needs it";
  world.Exits(Role::kWorker, 1, 0);
  EXPECT_THAT(Deleted(world.Look()), ElementsAre("mnist-ps-0"));
}

TEST(PlanEnd, TheLastStatusCountsReplicasAsTheyEnded) {
  World world(OneServerTwoWorkers().Replicas("worker", 3));
  world.RunsReady().Exits(Role::kWorker, 0, 0).Look();
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).active, 2);
  world.Exits(Role::kWorker, 1, 0).Exits(Role::kWorker, 2, 1).Settle().Passes(absl::Seconds(30)).Settle();
  const ReplicaStatus workers = world.status().replica_statuses.at(Role::kWorker);
  EXPECT_EQ(workers.active, 0);
  EXPECT_EQ(workers.ready, 0);
  EXPECT_EQ(workers.succeeded, 2);
  EXPECT_EQ(workers.completed, "0-1");
  EXPECT_EQ(workers.failed, 1);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kPs).active, 0);
}

TEST(PlanEnd, AFailedJobsPodsAreStoppedAtOnce) {
  World world(OneServerTwoWorkers().Restart("worker", "Never"));
  world.RunsReady().Exits(Role::kWorker, 0, 1);
  EXPECT_THAT(Deleted(world.Look()), UnorderedElementsAre("mnist-ps-0", "mnist-worker-1"));
}

TEST(PlanEnd, AJobThatHasSucceededChangesNoMore) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Exits(Role::kWorker, 0, 0).Settle().Passes(absl::Seconds(30)).Settle();
  const TrainingJobStatus ended = world.status();
  world.Loses(Role::kWorker, 0).Passes(absl::Hours(1)).Settle();
  EXPECT_EQ(world.status(), ended);
  EXPECT_THAT(world.pods(), IsEmpty());
}

TEST(PlanEnd, WithAllWorkersEveryWorkerMustCompleteAndACompletedOneWhosePodIsGoneIsNotRecreated) {
  World world(OneServerTwoWorkers().Policy("successPolicy", "AllWorkers"));
  world.RunsReady().Exits(Role::kWorker, 1, 0).Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).completed, "1");
  world.Loses(Role::kWorker, 1);
  EXPECT_THAT(Created(world.Look()), IsEmpty());
  world.Exits(Role::kWorker, 0, 0).Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
}

TEST(PlanEnd, ASidecarThatGoesOnDoesNotHoldUpASuccess) {
  World world(OneServerTwoWorkers());
  world.RunsReady().ChangePod(Role::kWorker, 0, [](Pod& pod) {
    pod.containers[0].terminated = Termination{.exit_code = 0};
    pod.containers.push_back({.name = "sidecar", .running_since = kStart});
  });
  world.Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
}

TEST(PlanEnd, TheChiefsTerminationMessageBecomesTheFinalProgress) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Exits(Role::kWorker, 0, 0, R"({"step": 560, "totalSteps": 560, "metrics": {"accuracy": 0.97}})").Settle();
  ASSERT_TRUE(world.status().progress);
  EXPECT_EQ(world.status().progress->step, 560);
  EXPECT_EQ(world.status().progress->percent, 100);
  EXPECT_EQ(world.status().progress->metrics.at("accuracy"), 0.97);
}

TEST(PlanEnd, ADeadlineFailsTheJobWithoutAnyOutsideEventAndStopsItsPodsUnderEveryPolicy) {
  World world(OneServerTwoWorkers().Policy("activeDeadlineSeconds", 100).Policy("cleanPodPolicy", "None"));
  world.RunsReady();
  EXPECT_EQ(world.Peek().requeue_at, kStart + absl::Seconds(100));
  world.Passes(absl::Seconds(100));
  const Plan plan = world.Look();
  EXPECT_EQ(ReasonOf(world, kFailed), "DeadlineExceeded");
  EXPECT_THAT(Deleted(plan), SizeIs(3));
}

TEST(PlanEnd, TheDeadlineOfASuspendedJobStopsAndBeginsAnewWhenTheJobResumes) {
  const MakeJob job = OneServerTwoWorkers().Policy("activeDeadlineSeconds", 100);
  World world(job);
  world.RunsReady().Passes(absl::Seconds(90)).Edits(MakeJob(job).Policy("suspend", true)).Settle();
  EXPECT_FALSE(world.Peek().requeue_at);
  world.Passes(absl::Hours(1)).Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kSuspended);
  world.Edits(job).RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_EQ(world.Peek().requeue_at, world.now() + absl::Seconds(100));
}

TEST(PlanEnd, AFinishedJobIsDeletedAfterItsTimeToLive) {
  World world(OneServerTwoWorkers().Policy("ttlSecondsAfterFinished", 60));
  world.RunsReady().Exits(Role::kWorker, 0, 0).Settle().Passes(absl::Seconds(30)).Settle();
  EXPECT_EQ(world.Peek().requeue_at, kStart + absl::Seconds(60));
  EXPECT_FALSE(world.Peek().delete_job);
  world.Passes(absl::Seconds(60));
  EXPECT_TRUE(world.Peek().delete_job);
}

TEST(PlanEnd, ATimeToLiveOfZeroDeletesOnlyAfterTheEndWasWritten) {
  World world(OneServerTwoWorkers().Policy("ttlSecondsAfterFinished", 0));
  world.RunsReady().Exits(Role::kWorker, 0, 0);
  EXPECT_FALSE(world.Peek().delete_job);
  world.Look();
  EXPECT_TRUE(world.Peek().delete_job);
}

}  // namespace
}  // namespace trainyard::control
