#include "operator/plan/restart_together.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/conditions.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr ReplicaId kWorker0{Role::kWorker, 0};

MakeJob Group(int workers = 3, int backoff_limit = 6) {
  return MakeJob().Framework("PyTorch").Replicas("worker", workers).Claim("data").Policy("backoffLimit", backoff_limit);
}

std::string UidOf(const World& world, const ReplicaId& id) { return world.pods().at(id)->meta.uid; }

TEST(RestartTogether, FrameworksWithAFixedGroupDoAndOthersDoWhereTheySaySo) {
  const auto scope = [](const MakeJob& job) { return job.Build().spec.run_policy.restart_scope; };
  const auto framework = [](const char* name) { return MakeJob().Framework(name).Replicas("worker", 2); };
  EXPECT_EQ(scope(framework("PyTorch")), RestartScope::kJob);
  EXPECT_EQ(scope(framework("MPI")), RestartScope::kJob);
  EXPECT_EQ(scope(framework("JAX")), RestartScope::kJob);
  EXPECT_EQ(scope(framework("XGBoost")), RestartScope::kJob);
  EXPECT_EQ(scope(framework("PyTorch").Set("/spec/elastic", {{"minWorkers", 1}, {"maxWorkers", 2}})), RestartScope::kReplica);
  EXPECT_EQ(scope(framework("TensorFlow")), RestartScope::kReplica);
  EXPECT_EQ(scope(framework("Trainyard")), RestartScope::kReplica);
  EXPECT_EQ(scope(framework("TensorFlow").Policy("restartScope", "Job")), RestartScope::kJob);
  EXPECT_EQ(scope(framework("PyTorch").Policy("restartScope", "Replica")), RestartScope::kReplica);
  EXPECT_EQ(scope(framework("PyTorch").Restart("worker", "Always")), RestartScope::kReplica);
}

TEST(RestartTogether, AlwaysIsRefusedWhereTheJobSaysSoItself) {
  const TrainingJob job = Group().Restart("worker", "Always").Policy("restartScope", "Job").Build();
  ASSERT_THAT(job.problems, SizeIs(1));
  EXPECT_EQ(job.problems[0].path, "spec.worker.restartPolicy");
}

TEST(RestartTogether, OneFailureRecreatesAllAndSpendsOneRestart) {
  World world(Group());
  world.RunsReady();
  const std::string before = UidOf(world, kWorker0);
  world.Exits(Role::kWorker, 1, 1, "NCCL error");
  const Plan plan = world.Look();
  EXPECT_THAT(Deleted(plan), ElementsAre("mnist-worker-0", "mnist-worker-1", "mnist-worker-2"));
  EXPECT_THAT(Created(plan), IsEmpty());
  ASSERT_THAT(EventReasons(plan), ElementsAre("Restarting"));
  EXPECT_THAT(plan.events[0].note, HasSubstr("worker-1 failed and is recreated with all replicas (restart 1 of 6): exit code 1"));
  world.RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_EQ(world.status().restarts, 1);
  EXPECT_EQ(world.status().disruptions, 0);
  EXPECT_EQ(world.status().failure->replica, "worker-1");
  EXPECT_NE(UidOf(world, kWorker0), before);
}

TEST(RestartTogether, AReplicaWhosePodIsGoneHoldsUpNoOther) {
  World world(Group());
  const Plan plan = world.RunsReady().Loses(Role::kWorker, 0).Exits(Role::kWorker, 1, 1).Look();
  EXPECT_THAT(Deleted(plan), ElementsAre("mnist-worker-1", "mnist-worker-2"));
}

TEST(RestartTogether, WaitingForOnesOwnJobStartsAllAgainAndSpendsNothing) {
  World world(Group(3, 0));
  world.RunsReady().Exits(Role::kWorker, 1, 200).Settle().RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_EQ(world.status().restarts, 0);
  EXPECT_EQ(world.status().disruptions, 1);
}

TEST(RestartTogether, TheOthersThatFailBecauseOfTheFirstSpendNothing) {
  World at_once(Group());
  at_once.RunsReady().Exits(Role::kWorker, 0, 1).Exits(Role::kWorker, 1, 1).Exits(Role::kWorker, 2, 134).Settle().RunsReady();
  EXPECT_EQ(at_once.status().restarts, 1);

  World later(Group());
  later.RunsReady().Exits(Role::kWorker, 1, 1);
  TrainingJob job = later.job();
  job.status = *MakePlan(job, later.Seen(), later.now()).status;
  later.Exits(Role::kWorker, 0, 1).Exits(Role::kWorker, 2, 134);  // while they are being deleted
  const Plan plan = MakePlan(job, later.Seen(), later.now());
  EXPECT_THAT(Deleted(plan), SizeIs(3));
  if (plan.status) {
    EXPECT_EQ(plan.status->restarts, 1);
  }
}

TEST(RestartTogether, NoReplicaIsRecreatedBeforeTheLastOldPodIsGone) {
  World world(Group());
  world.RunsReady().Exits(Role::kWorker, 1, 1);
  std::map<ReplicaId, std::shared_ptr<const Pod>> old = world.pods();
  world.Look();
  Pod ending = *old.at(kWorker0);
  ending.meta.deletion_time = world.now();
  TrainingJob job = world.job();
  Observed seen = world.Seen();
  seen.pods = {{kWorker0, std::make_shared<const Pod>(ending)}};
  const absl::Time later = world.now() + absl::Minutes(1);
  EXPECT_THAT(Created(MakePlan(job, seen, later)), IsEmpty());
  seen.pods.clear();
  EXPECT_THAT(Created(MakePlan(job, seen, later)), ElementsAre("mnist-worker-0", "mnist-worker-1", "mnist-worker-2"));
}

TEST(RestartTogether, AReplicaThatHadCompletedStartsAgainToo) {
  World world(Group().Policy("successPolicy", "AllWorkers"));
  world.RunsReady().Exits(Role::kWorker, 0, 0).Settle();
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).completed, "0");
  const std::string with_pod = UidOf(world, kWorker0);
  world.Exits(Role::kWorker, 1, 137).Settle();
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).succeeded, 0);
  world.RunsReady();
  EXPECT_NE(UidOf(world, kWorker0), with_pod);

  world.Exits(Role::kWorker, 0, 0).Settle().Loses(Role::kWorker, 0);  // its pod is gone
  world.Exits(Role::kWorker, 1, 137).Settle().Passes(absl::Seconds(5)).RunsReady();
  EXPECT_TRUE(world.pods().contains(kWorker0));
  EXPECT_EQ(world.status().restarts, 2);
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

TEST(RestartTogether, APodThatEndsWellWhileItIsDeletedWithAllCompletesNothing) {
  World world(Group());
  world.RunsReady().Exits(Role::kWorker, 1, 1);
  TrainingJob job = world.job();
  job.status = *MakePlan(job, world.Seen(), world.now()).status;
  world.Exits(Role::kWorker, 0, 0);  // the chief heeds SIGTERM
  const Plan plan = MakePlan(job, world.Seen(), world.now());
  EXPECT_FALSE(plan.status && plan.status->Finished());
  EXPECT_THAT(Deleted(plan), SizeIs(3));
}

TEST(RestartTogether, ADisruptionAndADeletedPodRecreateAllAndSpendNothing) {
  World world(Group());
  world.RunsReady();
  const std::string before = UidOf(world, kWorker0);
  world.Loses(Role::kWorker, 1).Settle().RunsReady();
  const std::string between = UidOf(world, kWorker0);
  EXPECT_NE(between, before);
  world.ChangePod(Role::kWorker, 2, [](Pod& pod) {
    pod.phase = PodPhase::kFailed;
    pod.reason = "Evicted";
  });
  world.Settle().Passes(absl::Seconds(5)).RunsReady();
  EXPECT_NE(UidOf(world, kWorker0), between);
  EXPECT_EQ(world.status().restarts, 0);
  EXPECT_EQ(world.status().disruptions, 2);
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

TEST(RestartTogether, AllWaitAsLongAsTheOneThatFailedAgainAndAgain) {
  World world(Group());
  for (int i = 0; i < 3; ++i) world.RunsReady().Exits(Role::kWorker, i, 1).Settle().Passes(absl::Seconds(10));
  world.RunsReady().Exits(Role::kWorker, 0, 1).Settle();
  EXPECT_THAT(world.pods(), IsEmpty());
  world.Passes(absl::Seconds(3)).Settle();
  EXPECT_THAT(world.pods(), IsEmpty()) << "the fourth restart in a row waits 4 s";
  world.Passes(absl::Seconds(1)).Settle();
  EXPECT_THAT(world.pods(), SizeIs(3));
}

TEST(RestartTogether, ALimitOfNAllowsNRestartsOfAll) {
  World world(Group(3, 1));
  world.RunsReady().Exits(Role::kWorker, 0, 1).Exits(Role::kWorker, 1, 1).Settle().RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  world.Exits(Role::kWorker, 2, 1).Look();
  EXPECT_EQ(ReasonOf(world, kFailed), "BackoffLimitExceeded");
}

TEST(RestartTogether, TheEvaluatorStartsAgainAloneAndIsLeftAlone) {
  World world(Group().Replicas("evaluator", 1));
  world.RunsReady();
  const std::string worker = UidOf(world, kWorker0);
  const std::string evaluator = UidOf(world, {Role::kEvaluator, 0});
  world.Exits(Role::kWorker, 1, 1).Settle().RunsReady();
  EXPECT_EQ(UidOf(world, {Role::kEvaluator, 0}), evaluator);
  const std::string again = UidOf(world, kWorker0);
  EXPECT_NE(again, worker);
  world.Loses(Role::kEvaluator, 0).Settle().RunsReady();
  EXPECT_EQ(UidOf(world, kWorker0), again);
}

TEST(RestartTogether, PodsEndInsteadOfBeingRestartedByTheirKubelet) {
  const TrainingJob job = Group().Build();
  EXPECT_EQ(job.spec.Find(Role::kWorker)->restart_policy, RestartPolicy::kRecreate);
  World world(Group());
  world.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) {  // its phase follows later
    pod.containers[0] = {.name = "trainer", .terminated = Termination{.exit_code = 1}};
  });
  EXPECT_THAT(Deleted(world.Look()), SizeIs(3));
}

TEST(RestartTogether, ANewNumberStartsAllAgainAtOnceAndSpendsNothing) {
  for (const int workers : {4, 2}) {
    World world(Group().Replicas("evaluator", 1));
    world.RunsReady();
    const std::string before = UidOf(world, kWorker0);
    const std::string evaluator = UidOf(world, {Role::kEvaluator, 0});
    world.Edits(Group(workers).Replicas("evaluator", 1));
    const Plan plan = world.Look();
    EXPECT_THAT(Deleted(plan), ElementsAre("mnist-worker-0", "mnist-worker-1", "mnist-worker-2"));
    EXPECT_THAT(Created(plan), IsEmpty());
    EXPECT_EQ(plan.status_timing, StatusTiming::kAtOnce) << "it is written before the first pod is deleted";
    ASSERT_THAT(EventReasons(plan), ElementsAre("Scaled"));
    EXPECT_THAT(plan.events[0].note, HasSubstr("all replicas start again"));
    world.Settle();
    EXPECT_THAT(world.pods(), SizeIs(workers + 1)) << "no waiting";
    EXPECT_NE(UidOf(world, kWorker0), before);
    EXPECT_EQ(UidOf(world, {Role::kEvaluator, 0}), evaluator);
    world.RunsReady();
    EXPECT_EQ(world.status().phase, JobPhase::kRunning);
    EXPECT_EQ(world.status().restarts, 0);
    EXPECT_EQ(world.status().disruptions, 0);
    EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).ready, workers);
    EXPECT_TRUE(world.Look().Empty()) << "once";
  }
}

TEST(RestartTogether, ANewNumberOutlivesAnOperatorThatDiesBetweenStatusAndPods) {
  World world(Group());
  world.RunsReady().Edits(Group(2));
  TrainingJob job = world.job();
  job.status = StatusFromJson(StatusToJson(*MakePlan(job, world.Seen(), world.now()).status));
  EXPECT_EQ(job.status.replica_statuses.at(Role::kWorker).desired, 2);
  EXPECT_THAT(Deleted(MakePlan(job, world.Seen(), world.now())), SizeIs(3));
}

TEST(RestartTogether, NoReplicaOfANewNumberMeetsAPodOfTheOldOne) {
  World world(Group());
  world.RunsReady().Edits(Group(2)).Look();
  TrainingJob job = world.job();
  Observed seen = world.Seen();
  seen.pods = {{{Role::kWorker, 2}, std::make_shared<const Pod>(MakePod(Role::kWorker, 2).Ready().Terminating().Build())}};
  EXPECT_THAT(Created(MakePlan(job, seen, world.now())), IsEmpty());
  seen.pods.clear();
  EXPECT_THAT(Created(MakePlan(job, seen, world.now())), SizeIs(2));
}

TEST(RestartTogether, ANewNumberBeforeAnyStatusWasWrittenStartsAllAgainToo) {
  World world(Group());
  world.Settle();
  const std::string before = UidOf(world, kWorker0);
  world.ForgetsStatus().Edits(Group(4)).Settle();
  EXPECT_NE(UidOf(world, kWorker0), before);
  EXPECT_THAT(world.pods(), SizeIs(4));

  World unchanged(Group());
  const std::string same = UidOf(unchanged.Settle(), kWorker0);
  EXPECT_EQ(UidOf(unchanged.ForgetsStatus().Settle(), kWorker0), same);
}

TEST(RestartTogether, ANewNumberWhileTheJobIsSuspendedIsNoRestart) {
  World world(Group());
  world.RunsReady().Edits(Group().Policy("suspend", true)).Settle();
  world.Edits(Group(4).Policy("suspend", true)).Settle().Edits(Group(4)).Settle();
  EXPECT_THAT(world.pods(), SizeIs(4));
  EXPECT_EQ(world.status().phase, JobPhase::kPending);
}

TEST(RestartTogether, ReplicasThatRestartAloneFollowANewNumberAsTheyRun) {
  World world(Group().Policy("restartScope", "Replica"));
  world.RunsReady();
  const std::string before = UidOf(world, kWorker0);
  world.Edits(Group(4).Policy("restartScope", "Replica")).Settle();
  EXPECT_EQ(UidOf(world, kWorker0), before);
  EXPECT_THAT(world.pods(), SizeIs(4));
}

// Of Kueue, with an evaluator.
MakeJob Queued(int workers) {
  return Group(workers).Replicas("evaluator", 1).Set("/metadata/labels", {{"kueue.x-k8s.io/queue-name", "research"}});
}

TEST(RestartTogether, ForKueueANewNumberIsAnotherGroupWhichTheEvaluatorIsOfToo) {
  World world(Queued(3));
  world.RunsReady().Edits(Queued(2));
  EXPECT_EQ(world.status().group_epoch, 0);
  const Plan plan = world.Look();
  EXPECT_THAT(Deleted(plan), ElementsAre("mnist-worker-0", "mnist-worker-1", "mnist-worker-2", "mnist-evaluator-0"));
  EXPECT_THAT(Created(plan), IsEmpty());
  EXPECT_EQ(plan.status_timing, StatusTiming::kAtOnce) << "it is written before the first pod is deleted";
  EXPECT_FALSE(world.status().IsTrue(kInvalid));
  EXPECT_EQ(world.status().group_epoch, 1);
  world.RunsReady();
  EXPECT_THAT(world.pods(), SizeIs(3));
  EXPECT_EQ(world.status().group_epoch, 1) << "once";
}

TEST(RestartTogether, ForKueueAFailureMakesAnotherGroupButNotThatOfTheEvaluator) {
  World world(Queued(2).Policy("successPolicy", "AllWorkers"));
  world.RunsReady().Exits(Role::kEvaluator, 0, 1).Settle().RunsReady();
  EXPECT_EQ(world.status().group_epoch, 0) << "its next pod is of the same group";
  world.Exits(Role::kEvaluator, 0, 0).Settle().Exits(Role::kWorker, 1, 1).Settle().RunsReady();
  EXPECT_EQ(world.status().group_epoch, 1);
  EXPECT_EQ(world.status().restarts, 1);
  EXPECT_THAT(world.pods(), SizeIs(3)) << "Kueue admits no group that lacks a pod";
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

TEST(RestartTogether, AThousandReplicasMakeAStatusBelowAHundredKilobytesHoweverOftenTheOperatorDies) {
  constexpr int kMany = 1000;
  World world(Group(kMany));
  world.RunsReady().Exits(Role::kWorker, 500, 1);
  TrainingJob job = world.job();
  for (int death = 0; death < 3; ++death) {
    const Plan plan = MakePlan(job, world.Seen(), world.now());
    EXPECT_THAT(Deleted(plan), SizeIs(kMany));
    if (plan.status) job.status = StatusFromJson(StatusToJson(*plan.status));
    EXPECT_EQ(job.status.restarts, 1);
  }
  EXPECT_LT(StatusToJson(job.status).dump().size(), 100'000U);
}

}  // namespace
}  // namespace trainyard::control
