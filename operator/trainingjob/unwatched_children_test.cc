#include "operator/trainingjob/unwatched_children.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/trainingjob/reconciler_harness.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST_F(GangTest, ThePodGroupFollowsTheScaleAndCostsNothingWhenQuiet) {
  Apply(GangJob());
  Start();
  RunsReady();
  EXPECT_EQ(MinMember(), 3);
  for (const int workers : {4, 1}) {
    Scale(workers);
    RunsReady();
    EXPECT_EQ(MinMember(), 1 + workers);
  }
  server_.ForgetCalls();
  process_->Settle();
  for (const ApiCall& call : server_.Calls()) {
    EXPECT_NE(call.resource, "podgroups") << call.verb;
    EXPECT_NE(call.resource, "secrets") << call.verb;
  }
}

TEST_F(GangTest, ThePodGroupHasItsNewNumberBeforeAPodGoes) {
  Apply(GangJob());
  Start();
  RunsReady();
  server_.ForgetCalls();
  Scale(1);
  process_->Settle();
  std::vector<std::string> writes;
  for (const ApiCall& call : server_.Calls()) {
    if (call.resource == "podgroups" && call.verb == "patch") writes.emplace_back("patch");
    if (call.resource == "pods" && call.verb == "delete") writes.emplace_back("delete");
  }
  EXPECT_THAT(writes, ElementsAre("patch", "delete", "delete", "delete")) << "the scheduler looks at a gang again when it loses a pod";
}

TEST_F(GangTest, AnUpdateOfThePodGroupThatFailsIsTriedAgainAlsoByTheNextOperator) {
  Apply(GangJob());
  Start();
  RunsReady();
  server_.Inject({.verb = "patch", .resource = "podgroups", .code = 500, .times = 2});
  Scale(1);
  EXPECT_FALSE(process_->Reconcile().ok());
  EXPECT_EQ(MinMember(), 3);
  EXPECT_FALSE(process_->Reconcile().ok());
  process_.reset();
  Start();
  RunsReady();
  EXPECT_EQ(MinMember(), 2);
}

TEST_F(GangTest, APodGroupAndKeysThatCouldNotBeMadeAtFirstAreMadeThoughNoPodIsMissing) {
  Apply(GangJob());
  Start();
  server_.Inject({.verb = "create", .resource = "podgroups", .code = 500});
  server_.Inject({.verb = "create", .resource = "secrets", .code = 500});
  EXPECT_FALSE(process_->Reconcile().ok());
  EXPECT_EQ(Names(kPods).size(), 3U);
  process_->Settle();
  EXPECT_EQ(MinMember(), 3);
  EXPECT_THAT(Names(kSecrets), ElementsAre("mnist-ssh"));
}

TEST_F(GangTest, AForeignPodGroupIsNeitherChangedNorDeletedAndToldOnce) {
  const json foreign = server_.Put(kVolcanoPodGroups, PodGroup("foreign", ""));
  Apply(GangJob());
  Start();
  process_->events().Start();
  RunsReady();
  Scale(1);
  RunsReady();
  Exited("mnist-chief-0", 0);
  process_->Settle();
  EXPECT_EQ(Status()["phase"], "Succeeded");
  EXPECT_EQ(server_.Find(kVolcanoPodGroups, "default", "mnist"), foreign);
  EXPECT_TRUE(process_->events().Stop(absl::Seconds(5)));
  int told = 0;
  for (const json& event : server_.All(kEvents)) told += event["reason"] == "NameTaken" ? 1 : 0;
  EXPECT_EQ(told, 1);
}

TEST_F(GangTest, ThePodGroupOfAnEarlierJobIsWaitedForAndThenReplaced) {
  server_.Put(kVolcanoPodGroups, PodGroup("old", "old-job"));
  Apply(GangJob());
  Start();
  process_->Settle();
  EXPECT_EQ(MinMember(), 9);
  server_.CollectGarbage();
  RunsReady();
  EXPECT_EQ(MinMember(), 3);
}

TEST_F(GangTest, ANativeGangStartsByThePodGroupOfAnEarlierJobAndMakesItsOwnWhereThatGoes) {
  json old = PodGroup("old", "old-job");
  old["apiVersion"] = "scheduling.k8s.io/v1beta1";
  old["spec"] = {{"schedulingPolicy", {{"gang", {{"minCount", 9}}}}}};
  server_.Put(kNativePodGroups, old);
  const auto group = [&] { return server_.Find(kNativePodGroups, "default", "mnist"); };
  Apply(GangJob().Policy("scheduling", {{"gang", "Native"}}));
  Start();
  process_->Settle();
  EXPECT_EQ(Names(kPods).size(), 3U);
  EXPECT_EQ(group()->at("spec")["schedulingPolicy"]["gang"]["minCount"], 3) << "kept by the pods that name it";
  server_.CollectGarbage();
  ASSERT_FALSE(group());
  clock_.Advance(absl::Seconds(2));
  process_->Settle();
  ASSERT_TRUE(group());
  EXPECT_NE(group()->at("metadata")["ownerReferences"][0]["uid"], "old-job");
}

TEST_F(GangTest, AJobSuspendedWhileAnEarlierOnesPodGroupIsStillThereGetsItsOwnOnceItResumes) {
  server_.Put(kVolcanoPodGroups, PodGroup("old", "old-job"));
  Apply(GangJob().Policy("suspend", true));
  Start();
  process_->Settle();
  Suspend(false);
  process_->Settle();
  EXPECT_EQ(MinMember(), 9);
  server_.CollectGarbage();
  RunsReady();
  EXPECT_EQ(MinMember(), 3);
}

TEST_F(GangTest, AtTheEndPodGroupAndKeysAreGoneWhicheverOperatorIsThere) {
  for (const bool restarted : {false, true}) {
    Apply(GangJob());
    Start();
    RunsReady();
    ASSERT_THAT(Names(kSecrets), ElementsAre("mnist-ssh"));
    Exited("mnist-chief-0", 0);
    if (restarted) {
      ASSERT_FALSE(server_.Find(kTrainingJobs, "default", "mnist")->at("status").contains("completionTime"));
      server_.Inject({.verb = "delete", .code = 500, .times = 10});
      EXPECT_FALSE(process_->Reconcile().ok());
      ASSERT_EQ(Status()["phase"], "Succeeded");
      ASSERT_EQ(MinMember(), 3);
      server_.ClearFaults();
      process_.reset();
      Start();
    }
    process_->Settle();
    clock_.Advance(absl::Seconds(30));  // what pods may take to end by themselves
    process_->Settle();
    EXPECT_EQ(MinMember(), 0);
    EXPECT_THAT(Names(kSecrets), IsEmpty());
    process_.reset();
    server_.Remove(kTrainingJobs, "default", "mnist");
    server_.CollectGarbage();
  }
}

TEST_F(GangTest, AnOperatorWithoutTheRightToSeePodGroupsTellsSoOnceAndDoesNotTryForEver) {
  Apply(GangJob());
  Start();
  RunsReady();
  process_.reset();
  Start();
  server_.Inject({.resource = "podgroups", .code = 403, .reason = "Forbidden", .times = 1000});
  EXPECT_TRUE(process_->Reconcile().ok());
  Exited("mnist-chief-0", 0);
  process_->Settle();
  EXPECT_TRUE(process_->last().ok());
  const auto calls = server_.Calls();
  EXPECT_EQ(std::count_if(calls.begin(), calls.end(), [](const ApiCall& call) { return call.resource == "podgroups" && call.code == 403; }),
            1);
}

TEST_F(GangTest, SuspendingFreesTheGangsPlaceAndResumingAsksForItAnew) {
  Apply(GangJob());
  Start();
  RunsReady();
  Suspend(true);
  process_->Settle();
  EndTerminating();
  process_->Settle();
  EXPECT_EQ(MinMember(), 0);
  EXPECT_THAT(Names(kSecrets), ElementsAre("mnist-ssh")) << "keys hold nothing that others wait for";
  Suspend(false);
  RunsReady();
  EXPECT_EQ(MinMember(), 3);
  EXPECT_EQ(Status()["phase"], "Running");
}

}  // namespace
}  // namespace trainyard::control
