// Jobs whose trainer is lost between its goodbye and its exit: its peers have ended with success.
#include "operator/plan/second_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/plan/conditions.h"
#include "operator/plan/plan.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

MakeJob Training() {
  return OneServerTwoWorkers().Set("/spec/training", {{"steps", 3}, {"strategy", {{"parameterServer", {{"mode", "sync"}}}}}});
}
MakeJob AllReduce() {
  return MakeJob()
      .Replicas("worker", 3)
      .Claim("data")
      .Set("/spec/training", {{"steps", 3}, {"strategy", {{"allReduce", nlohmann::json::object()}}}});
}

// Its program ends now.
void Ends(World& world, Role role, int index, int code) {
  world.Exits(role, index, code).ChangePod(role, index, [&](Pod& pod) {
    Termination end = *pod.containers[0].terminated;
    end.started_at = kStart;
    end.finished_at = world.now();
    pod.containers[0].terminated = end;
  });
}

// The server and worker 1 have ended, worker 0 was killed and runs again.
World WithALostChief(const MakeJob& job) {
  World world(job);
  world.RunsReady();
  Ends(world, Role::kWorker, 1, 0);
  Ends(world, Role::kPs, 0, 0);
  Ends(world, Role::kWorker, 0, 137);
  world.Settle().AllReady();
  Ends(world, Role::kWorker, 1, 0);
  Ends(world, Role::kPs, 0, 0);
  world.Settle();
  return world;
}

TEST(SecondStart, PeersThatALostTrainerStillNeedsStartAgain) {
  World world = WithALostChief(Training());
  EXPECT_EQ(world.Look().requeue_at, kStart + kEnding);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kPs).completed, "0");
  const Plan plan = world.Passes(kEnding).Look();
  EXPECT_THAT(Deleted(plan), UnorderedElementsAre("mnist-ps-0", "mnist-worker-1"));
  EXPECT_THAT(EventReasons(plan), ElementsAre("Restarting", "Restarting"));
  EXPECT_EQ(plan.events[0].note,
            "ps-0 had ended and is recreated, because worker-0 still needs it; this does not count against backoffLimit");
  EXPECT_EQ(world.status().replica_statuses.at(Role::kPs).completed, "");
  EXPECT_THAT(Created(world.Look()), UnorderedElementsAre("mnist-ps-0", "mnist-worker-1"));
  EXPECT_EQ(world.status().restarts, 1);
  EXPECT_EQ(world.status().disruptions, 0);
  world.RunsReady();
  Ends(world, Role::kWorker, 0, 0);
  world.Look();
  EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
}

TEST(SecondStart, AnOperatorThatIsKilledMeanwhileTellsItOnce) {
  World world = WithALostChief(Training());
  world.Passes(kEnding);
  const Plan before = world.Peek();
  EXPECT_EQ(EventReasons(world.Look()), EventReasons(before));
  for (int i = 0; i < 5; ++i) EXPECT_THAT(EventReasons(world.Passes(absl::Seconds(1)).Look()), IsEmpty());
  EXPECT_EQ(world.status().restarts, 1);
}

TEST(SecondStart, ARankThatWasLostLastGetsAllOthersAgain) {
  World world(AllReduce());
  world.RunsReady();
  for (const int rank : {1, 2}) Ends(world, Role::kWorker, rank, 0);
  Ends(world, Role::kWorker, 0, 137);
  world.Settle().Passes(kEnding);
  EXPECT_THAT(Deleted(world.Look()), UnorderedElementsAre("mnist-worker-1", "mnist-worker-2"));
}

TEST(SecondStart, APeerWhosePodIsGoneStartsAgainToo) {
  World world = WithALostChief(Training());
  world.Loses(Role::kPs, 0);
  EXPECT_THAT(Created(world.Look()), Contains("mnist-ps-0"));
}

TEST(SecondStart, WorkersMayEndLongBeforeOthersWhileTheirServerRuns) {
  World world(Training());
  world.RunsReady();
  Ends(world, Role::kWorker, 1, 0);
  world.Settle().Passes(absl::Hours(20));
  EXPECT_THAT(Deleted(world.Look()), IsEmpty());
}

TEST(SecondStart, ReplicasOfOtherProgramsEndAsTheyLike) {
  for (const MakeJob& job : {OneServerTwoWorkers(), OneServerTwoWorkers().Framework("TensorFlow")}) {
    World world(job);
    world.RunsReady();
    Ends(world, Role::kPs, 0, 0);
    Ends(world, Role::kWorker, 1, 0);
    world.Settle().Passes(absl::Hours(1));
    EXPECT_THAT(Deleted(world.Look()), IsEmpty());
  }
}

TEST(SecondStart, AnEvaluatorNeitherNeedsPeersNorTellsOfTheirEnd) {
  World world(AllReduce().Replicas("evaluator", 1));
  world.RunsReady();
  Ends(world, Role::kEvaluator, 0, 0);
  world.Settle().Passes(absl::Hours(1));
  EXPECT_THAT(Deleted(world.Look()), IsEmpty());
}

}  // namespace
}  // namespace trainyard::control
