// Which children a job has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/conditions.h"
#include "operator/plan/plan.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

MakeJob Gang() { return OneServerTwoWorkers().Policy("scheduling", {{"gang", "Volcano"}}); }
MakeJob Mpi() { return MakeJob().Framework("MPI").Replicas("chief", 1).Replicas("worker", 2).Claim("data"); }

TEST(PlanChildren, AJobHasOneServiceOrThoseOfItsReplicas) {
  World one(OneServerTwoWorkers());
  EXPECT_THAT(Created(one.Look(), ChildKind::kService), ElementsAre("mnist"));
  EXPECT_THAT(Created(one.Look(), ChildKind::kService), IsEmpty());
  World each(OneServerTwoWorkers().ServicePerReplica());
  EXPECT_THAT(Created(each.Look(), ChildKind::kService), ElementsAre("mnist-ps-0", "mnist-worker-0", "mnist-worker-1"));
  EXPECT_THAT(Created(each.Look(), ChildKind::kService), IsEmpty());
}

TEST(PlanChildren, MpiNeedsItsKeysBeforeItsPods) {
  World world(MakeJob().Framework("MPI").Replicas("chief", 1).Replicas("worker", 2));
  const Plan plan = world.Look();
  const auto is = [](ChildKind kind) { return [kind](const ChildRef& child) { return child.kind == kind; }; };
  const auto secret = std::find_if(plan.creations.begin(), plan.creations.end(), is(ChildKind::kSecret));
  const auto pod = std::find_if(plan.creations.begin(), plan.creations.end(), is(ChildKind::kPod));
  ASSERT_NE(secret, plan.creations.end());
  EXPECT_LT(secret, pod);
}

TEST(PlanChildren, MpisLauncherIsMadeWhenItsWorkersAreReadyToBeReachedBySsh) {
  World world(Mpi());
  EXPECT_THAT(Created(world.Look()), ElementsAre("mnist-worker-0", "mnist-worker-1"));
  world.Has(MakePod(Role::kWorker, 0).Ready());
  EXPECT_THAT(Created(world.Look()), IsEmpty());
  world.Has(MakePod(Role::kWorker, 1).Ready());
  EXPECT_THAT(Created(world.Look()), ElementsAre("mnist-chief-0"));
  EXPECT_THAT(Created(World(Mpi().Policy("startPolicy", "Any")).Look()), SizeIs(3));
  EXPECT_THAT(Created(World(MakeJob().Framework("MPI").Replicas("worker", 2)).Look()), SizeIs(2)) << "worker 0 is the launcher";
}

TEST(PlanChildren, AGangsPodGroupIsMadeWithItsPodsAndFollowsTheScale) {
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

TEST(PlanChildren, AGangThatNeedsMoreThanItsServersStartsTogetherBecauseTheyWouldNotStartAlone) {
  const MakeJob job = MakeJob().Replicas("ps", 1).Replicas("worker", 2);
  EXPECT_THAT(Created(World(MakeJob(job).Policy("scheduling", {{"gang", "Volcano"}})).Look()), SizeIs(3));
  EXPECT_THAT(Created(World(MakeJob(job).Policy("scheduling", {{"gang", "Volcano"}, {"minAvailable", 1}})).Look()),
              ElementsAre("mnist-ps-0"));
}

TEST(PlanChildren, AGangWhoseMinimumIsGivenKeepsItWhenScaledAndFollowsItsEdit) {
  World world(Gang().Policy("scheduling", {{"gang", "Coscheduling"}, {"minAvailable", 2}}));
  world.RunsReady().Edits(Gang().Replicas("worker", 1).Policy("scheduling", {{"gang", "Coscheduling"}, {"minAvailable", 2}}));
  EXPECT_THAT(world.Look().ensure, IsEmpty());
  world.Edits(Gang().Replicas("worker", 1).Policy("scheduling", {{"gang", "Coscheduling"}, {"minAvailable", 1}}));
  EXPECT_THAT(Ensured(world.Look(), ChildKind::kPodGroup), ElementsAre("mnist"));
}

TEST(PlanChildren, WhatNoCacheHoldsIsLookedUpOnceAfterARestartOfTheOperator) {
  World gang(Gang());
  gang.RunsReady().Restarts();
  EXPECT_THAT(Ensured(gang.Look(), ChildKind::kPodGroup), ElementsAre("mnist"));
  EXPECT_TRUE(gang.Look().Empty());
  World mpi(Mpi());
  mpi.RunsReady().Restarts();
  EXPECT_THAT(Ensured(mpi.Look(), ChildKind::kSecret), ElementsAre("mnist-ssh"));
  EXPECT_TRUE(mpi.Look().Empty());
}

TEST(PlanChildren, AForeignPodGroupIsLeftAsItIs) {
  World world(Gang());
  world.IsForeign(ChildKind::kPodGroup).RunsReady().Edits(Gang().Replicas("worker", 1));
  EXPECT_THAT(world.Look().ensure, IsEmpty());
  world.Exits(Role::kWorker, 0, 0);
  EXPECT_THAT(Deleted(world.Look(), ChildKind::kPodGroup), IsEmpty());
}

TEST(PlanChildren, AFinishedJobHoldsNoPodGroupWhateverThePolicyUnlessPodsOfItGoOn) {
  for (const char* policy : {"None", "Running", "All"}) {
    World world(Gang().Policy("cleanPodPolicy", policy));
    world.RunsReady().Exits(Role::kWorker, 0, 0);
    const bool kept = std::string(policy) == "None";
    if (std::string(policy) != "All") {
      EXPECT_THAT(Deleted(world.Look(), ChildKind::kPodGroup), IsEmpty()) << policy << ": pods may be about to end";
      world.Passes(absl::Seconds(30));
    }
    EXPECT_THAT(Deleted(world.Look(), ChildKind::kPodGroup), SizeIs(kept ? 0 : 1)) << policy;
    EXPECT_TRUE(world.Settle().Peek().Empty()) << policy;
    if (!kept) continue;
    world.Exits(Role::kWorker, 1, 0);
    EXPECT_THAT(Deleted(world.Look(), ChildKind::kPodGroup), ElementsAre("mnist")) << "the last pod that was kept has ended";
    EXPECT_TRUE(world.Settle().Peek().Empty());
  }
}

TEST(PlanChildren, TheKeysOfAnMpiJobGoAtItsEndUnlessPodsAreKept) {
  for (const char* policy : {"None", "Running", "All"}) {
    World world(Mpi().Policy("cleanPodPolicy", policy));
    world.RunsReady().Exits(Role::kChief, 0, 0);
    EXPECT_THAT(Deleted(world.Look(), ChildKind::kSecret), SizeIs(std::string(policy) == "None" ? 0 : 1)) << policy;
    world.Settle().Restarts().Settle();
    EXPECT_TRUE(world.Peek().Empty()) << policy;
  }
}

TEST(PlanChildren, ASuspendedJobHoldsNoPodGroupAndResumingRecreatesIt) {
  World world(Gang());
  world.RunsReady().Edits(Gang().Policy("suspend", true));
  EXPECT_THAT(Deleted(world.Look(), ChildKind::kPodGroup), ElementsAre("mnist"));
  EXPECT_TRUE(world.Settle().Peek().Empty());
  world.Edits(Gang());
  EXPECT_THAT(Created(world.Look(), ChildKind::kPodGroup), ElementsAre("mnist"));
}

TEST(PlanChildren, AnOrphanThatIsToBeAdoptedIsNotRecreated) {
  World world(OneServerTwoWorkers());
  world.extra.adopt.push_back({ChildKind::kPod, "mnist-worker-0", "u", "1", ReplicaId{Role::kWorker, 0}});
  const Plan plan = world.Peek();
  EXPECT_THAT(Created(plan), ElementsAre("mnist-ps-0", "mnist-worker-1"));
  EXPECT_THAT(plan.adopt, SizeIs(1));
}

}  // namespace
}  // namespace trainyard::control
