#include "operator/plan/node_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/conditions.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

constexpr char kBusy[] =
    "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: "
    "0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.";
constexpr char kNowhere[] =
    "0/2 nodes are available: 2 Insufficient nvidia.com/mig-1g.5gb. no new claims to deallocate, preemption: 0/2 nodes are available: 2 "
    "Preemption is not helpful for scheduling.";

TEST(NodeWait, TheSchedulersWordsAreSaidPlainly) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {kBusy, "1 of 3 nodes has a taint that the pod does not tolerate, 2 lack nvidia.com/gpu"},
      {kNowhere, "all 2 nodes lack nvidia.com/mig-1g.5gb"},
      {"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu.", "the only node lacks cpu, it lacks nvidia.com/gpu"},
      {"0/4 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint {gpu: a, b}, 2 node(s) were unschedulable.",
       "1 of 4 nodes has no room for another pod, 1 has a taint that the pod does not tolerate: {gpu: a, b}, 2 are cordoned"},
      {"0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2",
       "all 2 nodes do not match the pod's nodeSelector or affinity"},
      {"0/3 nodes are available: 1 cannot allocate all claims, 2 node(s) had volume node affinity conflict.",
       "1 of 3 nodes: cannot allocate all claims, 2: had volume node affinity conflict"},
      {"0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
       "the pod's PersistentVolumeClaim is not bound"},
      {"0/5 nodes are available: waiting for ResourceClaims. preemption: 0/5", "waiting for ResourceClaims"},
  };
  for (const auto& [said, plain] : cases) EXPECT_EQ(PlainSchedulerWords(said), plain);
}

TEST(NodeWait, OtherWordsStayAsTheyAre) {
  EXPECT_EQ(PlainSchedulerWords("persistentvolumeclaim \"data\" not found"), "persistentvolumeclaim \"data\" not found");
  EXPECT_EQ(PlainSchedulerWords("pod group is not ready,\n4 Pending.\n"), "pod group is not ready, 4 Pending");
  for (const char* odd :
       {"0/", "0/3", "0/0 nodes are available: 1 x", "0/3 nodes are available: ", "0/9999999999999 nodes are available: 1 x",
        "0/3 nodes are available: 99999999999 x", "no nodes available to schedule pods"}) {
    EXPECT_FALSE(PlainSchedulerWords(odd).empty()) << odd;
    EXPECT_EQ(LackingDevice(odd), "") << odd;
  }
  EXPECT_LE(PlainSchedulerWords(std::string(100'000, 'x')).size(), 600U);
  EXPECT_LE(PlainSchedulerWords("0/3 nodes are available: 1 " + std::string(100'000, 'x')).size(), 600U);
}

TEST(NodeWait, ADeviceThatIsInUseIsToldFromOneThatNoNodeHas) {
  EXPECT_EQ(LackingDevice(kBusy), "nvidia.com/gpu");
  EXPECT_TRUE(WaitsForOtherPods(kBusy));
  EXPECT_EQ(LackingDevice(kNowhere), "nvidia.com/mig-1g.5gb");
  EXPECT_FALSE(WaitsForOtherPods(kNowhere));
  EXPECT_EQ(LackingDevice("0/1 nodes are available: 1 Insufficient memory."), "");
}

TEST(NodeWait, AJobSaysAtOnceWhichReplicaNoNodeTakes) {
  World world(OneServerTwoWorkers());
  world.RunsReady();
  const auto pending = [&](int index, const char* said) {
    world.ChangePod(Role::kWorker, index, [&](Pod& pod) {
      pod = MakePod(Role::kWorker, index).Uid(pod.meta.uid).Build();
      pod.node.clear();
      pod.scheduler_spoke = true;
      pod.unschedulable = said;
    });
    world.Settle();
    return world.status().message;
  };
  const std::string why = "1 of 3 nodes has a taint that the pod does not tolerate, 2 lack nvidia.com/gpu";
  EXPECT_EQ(pending(1, kBusy), "waits for worker-1; no node takes worker-1: " + why);
  EXPECT_FALSE(world.status().IsTrue(kStalled));
  EXPECT_EQ(pending(0, kBusy), "waits for worker-0, worker-1; no node takes worker-0 (and 1 more): " + why);
  EXPECT_EQ(world.status().Find(kRunning)->message, world.status().message);
  EXPECT_EQ(pending(0, ""), "waits for worker-0, worker-1; no node takes worker-1: " + why);
  EXPECT_EQ(pending(1, ""), "waits for worker-0, worker-1");
}

TEST(NodeWait, AReplicaBehindASchedulingGateIsToldOf) {
  World world(OneServerTwoWorkers());
  world.RunsReady();
  const auto gated = [&](int index, const char* gates) {
    world.ChangePod(Role::kWorker, index, [&](Pod& pod) {
      pod = MakePod(Role::kWorker, index).Uid(pod.meta.uid).Build();
      pod.node.clear();
      pod.scheduler_spoke = true;
      pod.gates = gates;
    });
    world.Settle();
    return world.status().message;
  };
  const std::string held = " is held by scheduling gate example.com/quota, which another controller removes";
  EXPECT_EQ(gated(1, "example.com/quota"), "waits for worker-1; worker-1" + held);
  EXPECT_EQ(gated(0, "example.com/quota"), "waits for worker-0, worker-1; worker-0 (and 1 more)" + held);
  EXPECT_FALSE(world.status().IsTrue(kStalled)) << "it waits for its turn";
  EXPECT_EQ(gated(0, ""), "waits for worker-0, worker-1; worker-1" + held);
  EXPECT_EQ(gated(1, ""), "waits for worker-0, worker-1");
}

TEST(NodeWait, AReplicaOnANodeThatIsNotReadyIsToldOf) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Loses(Role::kWorker, 1).Settle().Passes(absl::Seconds(5)).RunsReady();
  for (const int index : {0, 1}) world.ChangePod(Role::kWorker, index, [](Pod& pod) { pod.ready = false; });
  world.extra.down_nodes["node-1"] = NodeDown::kNotReady;
  world.Look();
  EXPECT_EQ(world.status().message, "waits for worker-0, worker-1; worker-0 (and 1 more) is on node node-1, which is not Ready");
  EXPECT_EQ(world.status().phase, JobPhase::kRunning) << "worker-1 restarted before, and was ready since";
  EXPECT_FALSE(world.status().IsTrue(kRestarting));
  world.extra.down_nodes["node-1"] = NodeDown::kGone;
  world.Look();
  EXPECT_EQ(world.status().message, "waits for worker-0, worker-1") << "the pods are about to be deleted";
}

TEST(NodeWait, AReplicaThatRunsOnAnUnhealthyDeviceIsToldOf) {
  World world(OneServerTwoWorkers());
  world.RunsReady();
  const auto device = [&](int index, const char* unhealthy) {
    world.ChangePod(Role::kWorker, index, [&](Pod& pod) { pod.unhealthy_device = unhealthy; });
    world.Settle();
    return world.status().message;
  };
  EXPECT_EQ(device(1, "nvidia.com/gpu GPU-1"),
            "all replicas run and are ready; worker-1 runs on an unhealthy device: nvidia.com/gpu GPU-1");
  EXPECT_TRUE(world.status().IsTrue(kRunning));
  EXPECT_EQ(device(0, "nvidia.com/gpu GPU-0"),
            "all replicas run and are ready; worker-0 (and 1 more) runs on an unhealthy device: nvidia.com/gpu GPU-0");
  device(0, "");
  EXPECT_EQ(device(1, ""), "all replicas run and are ready");
}

}  // namespace
}  // namespace trainyard::control
