#include "operator/plan/failed_nodes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/children/avoided_nodes.h"
#include "operator/plan/conditions.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

MakeJob Avoiding(const char* policy = "ExitCode") {
  return MakeJob()
      .Replicas("worker", 3)
      .Claim("data")
      .Restart("worker", policy)
      .Policy("avoidFailedNodes", true)
      .Policy("backoffLimit", 100);
}

// A cluster with these nodes, all of them usable.
World In(const MakeJob& job, std::vector<std::string> nodes) {
  World world(job);
  world.extra.nodes = NodesSeen{.gone = {}, .usable = std::move(nodes)};
  return world;
}

World& FailsOn(World& world, int worker, const std::string& node, int code = 137) {
  world.RunsReady().Exits(Role::kWorker, worker, code).ChangePod(Role::kWorker, worker, [&](Pod& pod) { pod.node = node; });
  return world;
}

FailedNode Entry(int worker, const std::string& node) { return {fmt::format("worker-{}", worker), node}; }

TEST(FailedNodes, AreInTheStatusBeforeThePodIsDeletedAndToldOnce) {
  World world = In(Avoiding(), {"a", "b", "c"});
  const Plan plan = FailsOn(world, 1, "a").Look();
  EXPECT_EQ(plan.status_timing, StatusTiming::kAtOnce);
  EXPECT_THAT(plan.status->failed_nodes, ElementsAre(Entry(1, "a")));
  EXPECT_THAT(EventReasons(plan), ElementsAre("Restarting", "NodeAvoided"));
  EXPECT_EQ(plan.events[1].note, "worker-1 failed on node a: it does not start again there");
  world.RunsReady();
  EXPECT_THAT(world.status().failed_nodes, ElementsAre(Entry(1, "a")));
  EXPECT_TRUE(world.Restarts().Settle().Look().Empty()) << "an operator that starts anew remembers";
  const Plan again = FailsOn(world, 1, "a").Look();
  EXPECT_THAT(EventReasons(again), ElementsAre("Restarting"));
}

TEST(FailedNodes, ThereAreNoneUnlessTheJobAsksForThem) {
  World world(Avoiding().Policy("avoidFailedNodes", false));
  FailsOn(world, 1, "a").Settle();
  EXPECT_THAT(world.status().failed_nodes, IsEmpty());
}

TEST(FailedNodes, AReplicaThatTheKubeletWouldRestartOnItsNodeGetsANewPod) {
  World world = In(Avoiding("OnFailure"), {"a", "b"});
  EXPECT_EQ(world.job().spec.Find(Role::kWorker)->restart_policy, RestartPolicy::kRecreate);
  EXPECT_THAT(Deleted(FailsOn(world, 1, "a", 1).Look()), ElementsAre("mnist-worker-1"));
  const TrainingJob always = Avoiding("Always").Build();
  ASSERT_THAT(always.problems, SizeIs(1));
  EXPECT_EQ(always.problems[0].path, "spec.worker.restartPolicy");
}

TEST(FailedNodes, WhatSaysNothingOfANodeIsNotBlamedOnIt) {
  World absent_peer = In(Avoiding(), {"a", "b"});
  FailsOn(absent_peer, 1, "a", 200).Look();
  EXPECT_THAT(absent_peer.status().failed_nodes, IsEmpty());

  World preempted = In(Avoiding(), {"a", "b"});
  preempted.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.phase = PodPhase::kFailed;
    pod.disruption_target = true;
    pod.disruption = "PreemptionByScheduler: a pod of higher priority";
  });
  preempted.Look();
  EXPECT_EQ(preempted.status().disruptions, 1);
  EXPECT_THAT(preempted.status().failed_nodes, IsEmpty());

  World deleted = In(Avoiding(), {"a", "b"});
  deleted.RunsReady().ChangePod(Role::kWorker, 1, [&](Pod& pod) { pod.meta.deletion_time = kStart; });
  deleted.Look();
  EXPECT_THAT(deleted.status().failed_nodes, IsEmpty());
}

TEST(FailedNodes, ANodeThatEvictsOrIsLostIsAvoided) {
  World evicted = In(Avoiding(), {"a", "b"});
  evicted.RunsReady().Has(MakePod(Role::kWorker, 1).Evicted()).Look();
  EXPECT_THAT(evicted.status().failed_nodes, ElementsAre(Entry(1, "node-1")));

  World unhealthy = In(Avoiding(), {"a", "b"});
  unhealthy.RunsReady().Exits(Role::kWorker, 1, 137).ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.unhealthy_device = "nvidia.com/gpu 0";
  });
  unhealthy.Look();
  EXPECT_THAT(unhealthy.status().failed_nodes, ElementsAre(Entry(1, "node-1")));

  World rejected = In(Avoiding(), {"a", "b"});
  rejected.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.phase = PodPhase::kFailed;
    pod.reason = "TopologyAffinityError";
  });
  rejected.Look();
  EXPECT_THAT(rejected.status().failed_nodes, ElementsAre(Entry(1, "node-1")));

  World lost = In(Avoiding(), {"a", "b"});
  lost.RunsReady().ChangePod(Role::kWorker, 1, [&](Pod& pod) {
    pod.meta.deletion_time = kStart;
    pod.disruption_target = true;
    pod.disruption = "DeletionByTaintManager: the node is not reachable";
  });
  lost.Look();
  EXPECT_THAT(lost.status().failed_nodes, ElementsAre(Entry(1, "node-1")));
}

TEST(FailedNodes, OfAJobThatRestartsTogetherTheNodeOfTheFirstFailureCounts) {
  World world = In(Avoiding("OnFailure").Policy("restartScope", "Job"), {"a", "b", "c"});
  world.RunsReady();
  const auto ends = [&](int worker, const std::string& node, absl::Duration after) {
    world.Exits(Role::kWorker, worker, 1).ChangePod(Role::kWorker, worker, [&](Pod& pod) {
      pod.node = node;
      pod.containers[0].terminated = Termination{.exit_code = 1, .finished_at = kStart + after};
    });
  };
  ends(0, "a", absl::Seconds(7));
  ends(1, "b", absl::Seconds(3));
  ends(2, "c", absl::Seconds(5));
  const Plan plan = world.Look();
  EXPECT_THAT(world.status().failed_nodes, ElementsAre(Entry(1, "b")));
  EXPECT_EQ(world.status().failure->replica, "worker-1") << "the others ended because of it";
  EXPECT_EQ(plan.events.back().note, "worker-1 failed on node b: no replica starts again there");
}

TEST(FailedNodes, ADeletedNodeIsForgotten) {
  World world = In(Avoiding(), {"a", "b", "c"});
  FailsOn(world, 1, "a").Settle();
  FailsOn(world, 1, "b").Settle();
  world.extra.nodes = NodesSeen{.gone = {"a"}, .usable = {"b", "c"}};
  world.Look();
  EXPECT_THAT(world.status().failed_nodes, ElementsAre(Entry(1, "b")));
}

TEST(FailedNodes, AReplicaThatCouldGoNowhereElseStartsAgainWhereItFailedFirst) {
  World alone = In(Avoiding(), {"a"});
  FailsOn(alone, 1, "a").Look();
  EXPECT_THAT(alone.status().failed_nodes, IsEmpty());

  World two = In(Avoiding(), {"a", "b"});
  FailsOn(two, 1, "a").Settle();
  FailsOn(two, 2, "a").Settle();
  FailsOn(two, 1, "b").Settle();
  EXPECT_THAT(two.status().failed_nodes, ElementsAre(Entry(2, "a"), Entry(1, "b")));
  two.extra.nodes->usable = {"a"};  // node b is cordoned
  two.Settle();
  EXPECT_THAT(two.status().failed_nodes, SizeIs(2)) << "no replica needs a pod";
  two.Loses(Role::kWorker, 2).Settle();
  EXPECT_THAT(two.status().failed_nodes, ElementsAre(Entry(1, "b")));
}

TEST(FailedNodes, WithoutASightOfNodesAllAreRemembered) {
  World world(Avoiding());
  FailsOn(world, 1, "a").Settle();
  EXPECT_THAT(world.status().failed_nodes, ElementsAre(Entry(1, "a")));
}

TEST(FailedNodes, TheMemoryIsBounded) {
  World one(Avoiding());
  for (int i = 0; i < 12; ++i) FailsOn(one, 1, fmt::format("n{}", i)).Settle().Passes(absl::Minutes(6));
  ASSERT_THAT(one.status().failed_nodes, SizeIs(kMostAvoidedNodes));
  EXPECT_EQ(one.status().failed_nodes.back(), Entry(1, "n11"));

  World many(Avoiding().Replicas("worker", 500).Policy("backoffLimit", 1000));
  many.RunsReady();
  for (int i = 1; i < 500; ++i) many.Exits(Role::kWorker, i, 137);
  const Plan plan = many.Look();
  EXPECT_THAT(many.status().failed_nodes, SizeIs(64));
  EXPECT_LT(plan.events.size(), 12U);
}

TEST(FailedNodes, TheJobStalledForWantOfAnotherNodeNamesThem) {
  World world = In(Avoiding(), {"a", "b"});
  FailsOn(world, 1, "a").Settle();
  world.ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.node.clear();
    pod.unschedulable = "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 Insufficient cpu";
  });
  world.Passes(absl::Minutes(1)).Settle();
  EXPECT_EQ(ReasonOf(world, kStalled), "Unschedulable");
  EXPECT_THAT(world.status().message, HasSubstr("by runPolicy.avoidFailedNodes it keeps away from a"));
}

}  // namespace
}  // namespace trainyard::control
