// Jobs that wait for their turn in a queue.
#include "operator/plan/queue_wait.h"

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

const nlohmann::json kOneCpu = {{"requests", {{"cpu", "1"}}}};

MakeJob InKueue() {
  MakeJob job = OneServerTwoWorkers();
  return job.Policy("startPolicy", "PSReady")
      .Set("/metadata/labels", {{"kueue.x-k8s.io/queue-name", "research"}})
      .Set("/spec/ps/resources", kOneCpu)
      .Set("/spec/worker/resources", kOneCpu);
}

void Unbound(World& world, const std::function<void(Pod&)>& change) {
  for (const auto& [id, pod] : std::map(world.pods())) {
    world.ChangePod(id.role, id.index, [&](Pod& unbound) {
      unbound.node.clear();
      change(unbound);
    });
  }
}

std::vector<ChildRef> PodsOf(std::vector<ChildRef> children) {
  std::erase_if(children, [](const ChildRef& child) { return child.kind != ChildKind::kPod; });
  return children;
}

void Gate(World& world) {
  Unbound(world, [](Pod& pod) {
    pod.gates = "kueue.x-k8s.io/admission";
    pod.scheduler_spoke = true;
  });
}

TEST(QueueWait, AJobInKueueIsMadeWholeAndSaysWhatItWaitsForWithoutStalling) {
  World world(InKueue());
  EXPECT_THAT(Created(world.Look()), SizeIs(3)) << "Kueue admits no group that lacks its workers";
  Gate(world);
  world.Passes(absl::Minutes(60)).Look();
  EXPECT_EQ(world.status().message,
            "waits for 3 CPU in queue research of Kueue; kubectl describe workloads.kueue.x-k8s.io mnist-job-uid -n default says why");
  EXPECT_EQ(world.status().phase, JobPhase::kPending);
  EXPECT_FALSE(world.status().IsTrue(kStalled));
  EXPECT_EQ(world.status().restarts, 0);
  world.AllReady().Look();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

void HeldByKueue(World& world, const std::string& finalizers) {
  for (const auto& [id, pod] : std::map(world.pods())) {
    world.ChangePod(id.role, id.index, [&](Pod& held) { held.meta.finalizers = finalizers; });
  }
}

TEST(QueueWait, AJobThatRunsThoughKueueHoldsNoRoomForItSaysSo) {
  World world(InKueue());
  world.RunsReady();
  EXPECT_EQ(world.status().message,
            "all replicas run and are ready; Kueue holds no room for its pods in queue research: its configuration must name the "
            "integration pod");
  HeldByKueue(world, "kueue.x-k8s.io/managed");
  world.Look();
  EXPECT_EQ(world.status().message, "all replicas run and are ready");
}

TEST(QueueWait, AResumedJobIsAnotherGroupForKueueAndSaysItsName) {
  World world(InKueue());
  world.RunsReady().Edits(InKueue().Policy("suspend", true)).Settle();
  EXPECT_THAT(world.pods(), IsEmpty());
  world.Edits(InKueue()).Look();
  Gate(world);
  world.Passes(absl::Minutes(1)).Look();
  EXPECT_THAT(world.status().message, HasSubstr("workloads.kueue.x-k8s.io mnist-job-u-1 -n default"));
}

TEST(QueueWait, AJobOutsideOfKueueHasNoGroups) {
  World world(OneServerTwoWorkers().Policy("restartScope", "Job"));
  world.RunsReady().Exits(Role::kWorker, 1, 137).Settle().RunsReady();
  EXPECT_EQ(world.status().restarts, 1);
  EXPECT_EQ(world.status().group_epoch, 0);
}

TEST(QueueWait, AGangSaysTheSchedulersWordsAtOnceAndDoesNotStall) {
  World world(
      OneServerTwoWorkers().Set("/spec/worker/resources", kOneCpu).Policy("scheduling", {{"gang", "Volcano"}, {"queue", "research"}}));
  world.Look();
  Unbound(world, [](Pod& pod) { pod.unschedulable = "3/3 tasks in gang unschedulable"; });
  world.Passes(absl::Minutes(60)).Look();
  EXPECT_EQ(world.status().message, "waits for 2 CPU in queue research to start whole: 3/3 tasks in gang unschedulable");
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(QueueWait, AGangSaysWhichForeignGateHoldsOneOfItsPods) {
  World world(OneServerTwoWorkers().Set("/spec/worker/resources", kOneCpu).Policy("scheduling", {{"gang", "Volcano"}}));
  world.Look();
  Unbound(world, [](Pod& pod) { pod.unschedulable = "3/3 tasks in gang unschedulable"; });
  world.ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.unschedulable.clear();
    pod.scheduler_spoke = true;
    pod.gates = "example.com/quota";
  });
  world.Passes(absl::Minutes(60)).Look();
  EXPECT_EQ(world.status().message,
            "waits for 2 CPU to start whole: 3/3 tasks in gang unschedulable; worker-1 is held by scheduling gate example.com/quota, which "
            "another controller removes");
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(QueueWait, AJobThatKueueHasAdmittedSaysWhichForeignGateHoldsIt) {
  World world(InKueue());
  world.Look();
  Gate(world);
  Unbound(world, [](Pod& pod) { pod.gates = "example.com/quota"; });
  world.Passes(absl::Minutes(60)).Look();
  EXPECT_EQ(world.status().message,
            "waits for ps-0, worker-0, worker-1; ps-0 (and 2 more) is held by scheduling gate example.com/quota, which another controller "
            "removes");
}

TEST(QueueWait, AJobThatIsScaledBelowThePodGroupThatItKeepsStallsAndSaysWhatToDo) {
  const auto native = [](int workers) {
    return OneServerTwoWorkers().Replicas("worker", workers).Policy("scheduling", {{"gang", "Native"}}).NativeAlpha();
  };
  World world(native(3));
  world.Settle();
  Unbound(world, [](Pod& pod) { pod.unschedulable = "0/2 nodes are available: 2 Insufficient cpu."; });
  world.Passes(absl::Minutes(60)).Look();
  EXPECT_FALSE(world.status().IsTrue(kStalled)) << "it waits for its turn";
  world.Edits(native(2)).Settle();
  EXPECT_EQ(ReasonOf(world, kStalled), "Unschedulable");
  EXPECT_EQ(world.status().message,
            "ps-0 (and 2 more) cannot start: its PodGroup asks for 4 pods, a number that cannot change, and the job was scaled to 3; set "
            "runPolicy.suspend to true, and to false when the job is Suspended: it then gets another PodGroup");
}

TEST(QueueWait, APodGroupThatFollowsTheScaleStallsNoJob) {
  const auto native = [](int workers) {
    return OneServerTwoWorkers().Replicas("worker", workers).Policy("scheduling", {{"gang", "Native"}});
  };
  World world(native(3));
  world.Settle();
  Unbound(world, [](Pod& pod) { pod.unschedulable = "0/2 nodes are available: 2 Insufficient cpu."; });
  const Plan plan = world.Edits(native(2)).Peek();
  ASSERT_THAT(plan.ensure, SizeIs(1)) << "it gets the new number";
  EXPECT_EQ(plan.ensure[0].kind, ChildKind::kPodGroup);
  world.Passes(absl::Minutes(60)).Settle();
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(QueueWait, PodsOfANativeGangAreMadeWhenThePodGroupOfBeforeIsGone) {
  World world(OneServerTwoWorkers().Policy("scheduling", {{"gang", "Native"}}));
  world.IsLeaving(ChildKind::kPodGroup, 5);
  Plan plan = world.Peek();
  EXPECT_THAT(plan.ensure, SizeIs(1));
  EXPECT_THAT(PodsOf(plan.creations), IsEmpty());
  EXPECT_THAT(plan.status->message, HasSubstr("waits until the PodGroup mnist that is being deleted is gone"));
  EXPECT_TRUE(plan.requeue_at.has_value());
  world.Look();  // gone meanwhile: the group is made
  EXPECT_THAT(PodsOf(world.Look().creations), SizeIs(3));
  EXPECT_THAT(world.Peek().ensure, IsEmpty());
  EXPECT_EQ(world.status().message, "waits for ps-0, worker-0, worker-1");
}

TEST(QueueWait, APodGroupOfBeforeWithTheJobsOwnMinimumHoldsUpNoPods) {
  World world(OneServerTwoWorkers().Policy("scheduling", {{"gang", "Native"}}));
  world.IsLeaving(ChildKind::kPodGroup, 3);
  EXPECT_THAT(PodsOf(world.Peek().creations), SizeIs(3)) << "where the controller manager lacks the gate it stays for ever";
}

TEST(QueueWait, APodGroupThatTheJobsOwnPodsKeepIsNotAskedForAgainAndAgain) {
  World world(OneServerTwoWorkers().Policy("scheduling", {{"gang", "Native"}}));
  world.RunsReady().IsLeaving(ChildKind::kPodGroup, 3);
  EXPECT_THAT(world.Peek().ensure, IsEmpty());
}

TEST(QueueWait, APodGroupOfBeforeIsAskedForWhilePodsWaitForItInCaseItHasGone) {
  World world(OneServerTwoWorkers().Policy("scheduling", {{"gang", "Native"}}));
  world.IsLeaving(ChildKind::kPodGroup, 3);
  world.Look();
  Unbound(world, [](Pod& pod) { pod.unschedulable = "waiting for its pod group"; });
  world.IsLeaving(ChildKind::kPodGroup, 3);
  EXPECT_THAT(world.Peek().ensure, SizeIs(1));
}

// No watch tells when the garbage collector takes it, and pods that run tell nothing either.
TEST(QueueWait, APodGroupOfBeforeIsAskedForAgainUntilTheJobHasItsOwn) {
  for (const char* gang : {"Volcano", "Coscheduling"}) {
    World world(OneServerTwoWorkers().Policy("scheduling", {{"gang", gang}}));
    world.RunsReady();
    EXPECT_NE(world.Peek().requeue_at, world.now() + absl::Seconds(1)) << gang;
    world.IsLeaving(ChildKind::kPodGroup, 3);
    const Plan plan = world.Peek();
    EXPECT_THAT(plan.ensure, SizeIs(1)) << gang;
    EXPECT_EQ(plan.requeue_at, world.now() + absl::Seconds(1)) << gang;
    world.Restarts();
    EXPECT_EQ(world.Peek().requeue_at, world.now() + absl::Seconds(1)) << gang << ": the answer may be that it leaves";
    EXPECT_NE(world.Settle().Peek().requeue_at, world.now() + absl::Seconds(1)) << gang;
  }
}

TEST(QueueWait, AReplicaOfARunningGangThatFindsNoNodeStallsItsJob) {
  World world(OneServerTwoWorkers().Policy("scheduling", {{"gang", "Coscheduling"}}));
  world.RunsReady();
  world.ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.ready = false;
    pod.phase = PodPhase::kPending;
    pod.containers.clear();
    pod.node.clear();
    pod.unschedulable = "0/2 nodes are available";
  });
  world.Passes(absl::Minutes(1)).Look();
  EXPECT_EQ(ReasonOf(world, kStalled), "Unschedulable");
}

TEST(QueueWait, ASchedulerThatIsNotThereStallsTheGang) {
  World world(OneServerTwoWorkers().Policy("scheduling", {{"gang", "Coscheduling"}}));
  world.Look();
  Unbound(world, [](Pod& pod) { pod.scheduler = "scheduler-plugins-scheduler"; });
  world.Passes(absl::Minutes(5)).Look();
  EXPECT_THAT(world.status().message, HasSubstr("scheduler \"scheduler-plugins-scheduler\" has not looked at it"));
  EXPECT_TRUE(world.status().IsTrue(kStalled));
}

TEST(QueueWait, AQueueThatVolcanoDoesNotKnowStallsTheGangAndIsNamed) {
  World world(OneServerTwoWorkers().Policy("scheduling", {{"gang", "Volcano"}, {"queue", "nosuch"}}));
  world.Look();
  Unbound(world, [](Pod& pod) { pod.scheduler = "volcano"; });
  world.Passes(absl::Minutes(5)).Look();
  EXPECT_THAT(world.status().message, HasSubstr("scheduler \"volcano\" has not looked at it"));
  EXPECT_THAT(world.status().message, HasSubstr("; or its queue is not there: kubectl get queues.scheduling.volcano.sh nosuch"));
}

TEST(QueueWait, TheGroupOfAnEndedJobIsEndedInKueueSoThatItsRoomIsFree) {
  World world(InKueue());
  world.RunsReady().Exits(Role::kWorker, 0, 0);
  world.ChangePod(Role::kWorker, 0, [](Pod& pod) { pod.meta.finalizers = "kueue.x-k8s.io/managed"; });
  std::vector<ChildRef> ended;
  for (int i = 0; i < 3; ++i) {
    for (const ChildRef& child : world.Look().end_group) ended.push_back(child);
  }
  ASSERT_FALSE(ended.empty());
  EXPECT_EQ(ended.front().name, "mnist-worker-0");
  world.ChangePod(Role::kWorker, 0, [](Pod& pod) { pod.meta.finalizers.clear(); });
  EXPECT_THAT(world.Look().end_group, IsEmpty());
}

TEST(QueueWait, AnAdmittedJobKeepsItsNumberOfReplicasUntilItIsSuspended) {
  World world(InKueue());
  world.RunsReady().Edits(InKueue().Replicas("worker", 5));
  // As the decoder sees a job that has started.
  TrainingJob edited = world.job();
  edited.problems = Validate(edited);
  ASSERT_THAT(edited.problems, SizeIs(1));
  EXPECT_EQ(edited.problems.front().path, "spec.worker.replicas");
  EXPECT_THAT(edited.problems.front().message, HasSubstr("found 5, but the group of its pods in queue research of Kueue has 2"));
  EXPECT_EQ(LastAccepted(edited)->spec.Replicas(Role::kWorker), 2);
  edited.problems.clear();
  edited.spec.run_policy.suspend = true;
  EXPECT_THAT(Validate(edited), IsEmpty());
}

}  // namespace
}  // namespace trainyard::control
