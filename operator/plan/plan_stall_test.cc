// What holds a job up.
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

TEST(PlanStall, ATakenNameIsReportedOnceAndTheRestGoesOn) {
  World world(OneServerTwoWorkers().ServicePerReplica());
  world.extra.taken[{ChildKind::kService, "mnist-worker-1"}] = "not controlled by this job";
  const Plan plan = world.Look();
  EXPECT_THAT(Created(plan), SizeIs(3));
  EXPECT_THAT(Created(plan, ChildKind::kService), ElementsAre("mnist-ps-0", "mnist-worker-0"));
  EXPECT_EQ(ReasonOf(world, kStalled), "NameTaken");
  EXPECT_THAT(world.status().Find(kStalled)->message, HasSubstr("Service mnist-worker-1 exists and is not controlled by this job"));
  EXPECT_THAT(EventReasons(plan), ElementsAre("NameTaken"));
  EXPECT_EQ(plan.requeue_at, kStart + absl::Seconds(30));
  EXPECT_THAT(world.Look().events, IsEmpty());
  world.extra.taken.clear();
  EXPECT_THAT(Created(world.Look(), ChildKind::kService), ElementsAre("mnist-worker-1"));
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(PlanStall, LeftoversOfAnEarlierJobAreWaitedForWithoutAWarning) {
  World world(OneServerTwoWorkers());
  world.extra.leftovers.insert("mnist-worker-1");
  const Plan plan = world.Look();
  EXPECT_THAT(Created(plan), ElementsAre("mnist-ps-0", "mnist-worker-0"));
  EXPECT_THAT(plan.events, IsEmpty());
  EXPECT_EQ(plan.requeue_at, kStart + absl::Seconds(5));
}

TEST(PlanStall, APodThatCannotStartMakesTheJobStalledAfterAWhile) {
  World world(OneServerTwoWorkers());
  world.Settle().Has(MakePod(Role::kWorker, 1).Waiting("ImagePullBackOff"));
  EXPECT_EQ(world.Look().requeue_at, kStart + absl::Seconds(30));
  EXPECT_FALSE(world.status().IsTrue(kStalled));
  world.Passes(absl::Seconds(30)).Look();
  EXPECT_EQ(ReasonOf(world, kStalled), "ImagePullBackOff");
  EXPECT_THAT(world.status().message,
              HasSubstr("worker-1 cannot start: it cannot pull its image: because; correct the image in spec.image"));
  world.AllReady().Look();
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(PlanStall, AStepThatDoesNotMoveMakesARunningJobStalled) {
  World world(OneServerTwoWorkers());
  world.RunsReady();
  world.extra.progress = Progress{.step = 5};
  EXPECT_EQ(world.Look().requeue_at, kStart + absl::Minutes(15));
  world.Passes(absl::Minutes(15)).Look();
  EXPECT_EQ(ReasonOf(world, kStalled), "NoProgress");
  EXPECT_EQ(world.status().message,
            "worker-0 has reported step 5 since 2027-01-15T08:00:00Z; it hangs, or waits for a replica that does: kubectl logs -l "
            "trainyard.dev/job-name=mnist -n default --prefix --tail=5 shows the last lines of all");
  world.extra.progress->step = 6;
  world.Look();
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(PlanStall, AChiefThatDoesNotAnswerAnyMoreIsUnreachable) {
  World world(OneServerTwoWorkers());
  world.RunsReady();
  world.extra.progress = Progress{.step = 5};
  world.Look();
  world.extra.chief_problem = "GET http://10.0.0.1:5001/progress: connection refused";
  world.Passes(absl::Minutes(15)).Look();
  EXPECT_EQ(ReasonOf(world, kStalled), "Unreachable");
  EXPECT_EQ(
      world.status().message,
      "worker-0 has reported step 5 since 2027-01-15T08:00:00Z and does not answer now: GET http://10.0.0.1:5001/progress: connection "
      "refused; look at its log, and whether the operator may reach its port 5001");
  world.extra.chief_problem.clear();
  world.extra.progress->step = 6;
  world.Look();
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(PlanStall, AChiefThatNeverAnsweredIsUnreachable) {
  World world(OneServerTwoWorkers());
  world.RunsReady();
  world.extra.chief_problem = "no answer within 2s";
  EXPECT_EQ(world.Look().requeue_at, kStart + absl::Minutes(15));
  EXPECT_FALSE(world.status().IsTrue(kStalled));
  world.Passes(absl::Minutes(15)).Look();
  EXPECT_EQ(ReasonOf(world, kStalled), "Unreachable");
  EXPECT_EQ(
      world.status().message,
      "worker-0 has not answered since 2027-01-15T08:00:00Z: no answer within 2s; look at its log, and whether the operator may reach "
      "its port 5001");
  world.extra.chief_problem.clear();
  world.Look();
  EXPECT_FALSE(world.status().IsTrue(kStalled)) << "the last question was not refused";
}

TEST(PlanStall, OtherFrameworksAreStalledOnlyWhereTheirProgressIsAskedFor) {
  const MakeJob job = MakeJob().Framework("PyTorch").Replicas("worker", 1);
  for (const int port : {0, 7001}) {
    World world(port == 0 ? job : MakeJob(job).Set("/spec/network/progressPort", port));
    world.RunsReady();
    world.extra.chief_problem = "no answer within 2s";
    world.Look();
    world.Passes(absl::Minutes(15)).Look();
    EXPECT_EQ(world.status().IsTrue(kStalled), port != 0);
    if (port != 0) {
      EXPECT_THAT(world.status().message, HasSubstr("whether the operator may reach its port 7001"));
    }
  }
}

TEST(PlanStall, ProgressIsASmallChangeThatMayWaitButItsFirstNumbersAreWaitedFor) {
  World world(OneServerTwoWorkers());
  world.RunsReady();
  world.extra.progress = Progress{.step = 5};
  EXPECT_EQ(world.Look().status_timing, StatusTiming::kAtOnce);
  world.extra.progress->step = 6;
  EXPECT_EQ(world.Look().status_timing, StatusTiming::kSettled);
  world.extra.progress->loss = 2.5;
  EXPECT_EQ(world.Look().status_timing, StatusTiming::kAtOnce);
  world.extra.progress->loss = 2.4;
  EXPECT_EQ(world.Look().status_timing, StatusTiming::kSettled);
}

TEST(PlanStall, APodTerminatingOnANodeThatIsGoneOrOutOfServiceIsForceDeletedOnceAfterTheGrace) {
  for (const NodeDown down : {NodeDown::kGone, NodeDown::kOutOfService}) {
    World world(OneServerTwoWorkers());
    world.RunsReady().Has(MakePod(Role::kWorker, 1).Ready().Terminating(kStart));
    EXPECT_THAT(Deleted(world.Look()), IsEmpty()) << "its node is well: wait";
    world.extra.down_nodes["node-1"] = down;
    EXPECT_THAT(Deleted(world.Peek()), IsEmpty()) << "not before the grace is over";
    world.Passes(absl::Seconds(60));
    const Plan plan = world.Peek();
    ASSERT_THAT(plan.deletions, SizeIs(1));
    EXPECT_TRUE(plan.deletions[0].force);
    world.ChangePod(Role::kWorker, 1, [](Pod& pod) { pod.meta.deletion_grace = absl::ZeroDuration(); });
    EXPECT_THAT(Deleted(world.Peek()), IsEmpty()) << "a finalizer keeps it: another DELETE changes nothing";
  }
}

TEST(PlanStall, APodOnANodeThatIsNotReadyIsWaitedForAndAConditionSaysSo) {
  World world(OneServerTwoWorkers());
  world.RunsReady().Has(MakePod(Role::kWorker, 1).Ready().Terminating(kStart));
  world.extra.down_nodes["node-1"] = NodeDown::kNotReady;
  world.Settle().Passes(absl::Hours(1));
  EXPECT_THAT(Deleted(world.Look()), IsEmpty()) << "two processes of one replica are worse than waiting";
  EXPECT_EQ(ReasonOf(world, kStalled), "NodeNotReady");
  EXPECT_THAT(world.status().message,
              HasSubstr("worker-1 has been Terminating since 2027-01-15T08:00:00Z on node node-1, which is not Ready"));
  world.Loses(Role::kWorker, 1).RunsReady();
  EXPECT_FALSE(world.status().IsTrue(kStalled));
}

TEST(PlanStall, AJobThatAsksForItGetsItsPodsOnNodesThatAreNotReadyForceDeleted) {
  World world(OneServerTwoWorkers().Policy("lostNodePolicy", "ForceDelete"));
  world.RunsReady().Has(MakePod(Role::kWorker, 1).Ready().Terminating(kStart));
  world.extra.down_nodes["node-1"] = NodeDown::kNotReady;
  world.Passes(absl::Seconds(60));
  EXPECT_THAT(Deleted(world.Peek()), ElementsAre("mnist-worker-1"));
}

TEST(PlanStall, ChildrenThatAFinalizerKeepsAreDeletedOnceAndNamed) {
  World world(OneServerTwoWorkers().Replicas("worker", 3));
  world.RunsReady().Edits(OneServerTwoWorkers());
  Observed observed = world.Seen();
  observed.services["mnist-worker-2"].terminating = true;
  Pod pod = *observed.pods[{Role::kWorker, 2}];
  pod.meta.deletion_time = kStart;
  pod.meta.deletion_grace = absl::ZeroDuration();
  pod.meta.finalizers = "example.com/hold";
  observed.pods[{Role::kWorker, 2}] = std::make_shared<const Pod>(pod);
  EXPECT_THAT(MakePlan(world.job(), observed, kStart).deletions, IsEmpty());
  const Plan later = MakePlan(world.job(), observed, kStart + absl::Minutes(1));
  EXPECT_THAT(later.deletions, IsEmpty());
  EXPECT_THAT(later.status->message,
              HasSubstr("worker-2 has been Terminating since 2027-01-15T08:00:00Z: its finalizers are example.com/hold"));
}

TEST(PlanStall, AnEndedJobsChildrenThatAFinalizerKeepsAreDeletedOnce) {
  World world(OneServerTwoWorkers().Policy("cleanPodPolicy", "All"));
  world.RunsReady().Exits(Role::kWorker, 0, 0);
  Observed observed = world.Seen();
  for (auto& [name, service] : observed.services) service.terminating = true;
  ConfigMap config = *observed.config;
  config.meta.deletion_time = kStart;
  observed.config = std::make_shared<const ConfigMap>(config);
  const Plan plan = MakePlan(world.job(), observed, kStart);
  EXPECT_THAT(Deleted(plan, ChildKind::kService), IsEmpty());
  EXPECT_THAT(Deleted(plan, ChildKind::kConfigMap), IsEmpty());
}

}  // namespace
}  // namespace trainyard::control
