#include "operator/trainingjob/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/base/timestamp.h"
#include "operator/trainingjob/reconciler_harness.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST_F(ReconcilerTest, AJobOfTwoServersAndFourWorkersCostsAtMostFifteenWritesWithoutEventsAndNoneWhenQuiet) {
  Apply(MakeJob().Replicas("ps", 2).Replicas("worker", 4).Policy("startPolicy", "Any"));
  Start();
  ASSERT_TRUE(process_->Reconcile().ok());
  for (const std::string& pod : Names(kPods)) {
    Ready(pod);
    ASSERT_TRUE(process_->Reconcile().ok());
  }
  EXPECT_EQ(Status()["phase"], "Running");
  EXPECT_LE(server_.Writes(), 15) << "6 pods, 6 services, a ConfigMap, 2 of status";
  for (const ApiCall& call : server_.Calls()) EXPECT_NE(call.code, 409) << call.verb << " " << call.resource << " " << call.name;
  process_->Settle();
  server_.ForgetCalls();
  process_->Settle();
  for (const ApiCall& call : server_.Calls()) EXPECT_FALSE(call.IsWrite()) << call.verb << " " << call.resource << " " << call.name;
}

TEST_F(ReconcilerTest, NothingIsDoneWhenTheStatusCannotBeWritten) {
  Apply(SmallJob());
  Start();
  RunsReady();
  Exited("mnist-worker-1", 143);
  const json failed = *server_.Find(kPods, "default", "mnist-worker-1");
  server_.Inject({.verb = "update", .resource = "trainingjobs/status", .code = 500});
  EXPECT_FALSE(process_->Reconcile().ok());
  EXPECT_EQ(server_.Find(kPods, "default", "mnist-worker-1"), failed);
  process_->Settle();
  EXPECT_NE(server_.Find(kPods, "default", "mnist-worker-1")->at("metadata")["uid"], failed["metadata"]["uid"]);
  EXPECT_EQ(Status()["restarts"], 1);
}

TEST_F(ReconcilerTest, AFirstStatusIsWrittenOnceTheChildrenAreThereWithTheirCounts) {
  Apply(SmallJob().Policy("startPolicy", "Any"));
  Start();
  ASSERT_TRUE(process_->Reconcile().ok());
  std::vector<std::string> written;  // watches may begin at any time
  for (const ApiCall& call : server_.Calls()) {
    if (call.IsWrite()) written.push_back(call.resource);
  }
  EXPECT_THAT(written, AllOf(Contains("trainingjobs/status"), Contains("pods").Times(3)));
  EXPECT_EQ(written.back(), "trainingjobs/status");
  EXPECT_EQ(Status()["phase"], "Pending");
  EXPECT_EQ(Status()["replicaStatuses"]["worker"]["active"], 2);
}

TEST_F(ReconcilerTest, ItIsWrittenAlsoWhenTheChildrenCannotBeMade) {
  Apply(SmallJob());
  Start();
  server_.Inject({.verb = "create", .resource = "pods", .code = 500});
  EXPECT_FALSE(process_->Reconcile(/*others_new=*/100).ok());
  EXPECT_THAT(Names(kPods), IsEmpty());
  EXPECT_EQ(Status()["phase"], "Pending");
}

TEST_F(ReconcilerTest, ItWaitsForAWhileAsLongAsOtherJobsWaitForTheirChildren) {
  Apply(SmallJob().Policy("startPolicy", "Any"));
  Start();
  auto result = process_->Reconcile(/*others_new=*/1000);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(Names(kPods).size(), 3U);
  EXPECT_TRUE(Status().empty());
  ASSERT_TRUE(result->requeue_after);
  clock_.Advance(absl::Seconds(9));
  ASSERT_TRUE(process_->Reconcile(1000).ok());
  EXPECT_TRUE(Status().empty());
  clock_.Advance(absl::Seconds(1));
  ASSERT_TRUE(process_->Reconcile(1000).ok());
  EXPECT_EQ(Status()["phase"], "Pending");
}

TEST_F(ReconcilerTest, AfterTheLastOfThemItIsWrittenSoon) {
  Apply(SmallJob().Policy("startPolicy", "Any"));
  Start();
  const auto result = process_->Reconcile(/*others_new=*/2);
  ASSERT_TRUE(result.ok() && result->requeue_after);
  EXPECT_LE(*result->requeue_after, absl::Milliseconds(200));
  ASSERT_TRUE(process_->Reconcile().ok());
  EXPECT_EQ(Status()["phase"], "Pending");
}

TEST_F(ReconcilerTest, AJobThatRunsIsSaidToHoweverManyAreNew) {
  Apply(SmallJob().Policy("startPolicy", "Any"));
  Start();
  process_->events().Start();
  ASSERT_TRUE(process_->Reconcile(/*others_new=*/1000).ok());
  AllReady();
  ASSERT_TRUE(process_->Reconcile(1000).ok());
  EXPECT_EQ(Status()["phase"], "Running");
  EXPECT_TRUE(process_->events().Stop(absl::Seconds(5)));
  std::vector<std::string> reasons;
  for (const json& event : server_.All(kEvents)) reasons.push_back(event["reason"]);
  EXPECT_THAT(reasons, UnorderedElementsAre("Created", "Running"));
}

TEST_F(ReconcilerTest, OneCreateThatFailsDoesNotHoldUpTheOthersAndIsTriedAgain) {
  Apply(SmallJob().Policy("startPolicy", "Any"));
  Start();
  server_.Inject({.verb = "create", .resource = "pods", .code = 500, .times = 1});
  EXPECT_FALSE(process_->Reconcile().ok());
  EXPECT_EQ(Names(kPods).size(), 2U);
  EXPECT_THAT(Names(kServices), ElementsAre("mnist"));
  EXPECT_TRUE(process_->Reconcile().ok());
  EXPECT_EQ(Names(kPods).size(), 3U);
}

TEST_F(ReconcilerTest, AForeignPodOfAChildsNameIsNeverTouchedButReported) {
  const json foreign = {
      {"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", {{"name", "mnist-worker-1"}, {"namespace", "default"}}}, {"spec", {{"x", 1}}}};
  server_.Put(kPods, foreign);
  Apply(SmallJob().Policy("startPolicy", "Any"));
  Start();
  process_->Settle();
  EXPECT_EQ((*server_.Find(kPods, "default", "mnist-worker-1"))["spec"], foreign["spec"]);
  EXPECT_THAT(Names(kPods), UnorderedElementsAre("mnist-ps-0", "mnist-worker-0", "mnist-worker-1"));
  EXPECT_THAT(Status()["message"].get<std::string>(), testing::HasSubstr("Pod mnist-worker-1 exists and is not controlled by this job"));
  server_.Remove(kPods, "default", "mnist-worker-1");
  for (int i = 0; i < 6; ++i) process_->Settle();
  EXPECT_TRUE(server_.Find(kPods, "default", "mnist-worker-1")->at("metadata").contains("ownerReferences"));
}

TEST_F(ReconcilerTest, AnOrphanOfOursIsAdopted) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kPods, "default", "mnist-worker-1", {{"metadata", {{"ownerReferences", nullptr}}}});
  process_->Settle();
  const json pod = *server_.Find(kPods, "default", "mnist-worker-1");
  EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], Job()["metadata"]["uid"]);
  EXPECT_EQ(pod["status"]["phase"], "Running");
}

TEST_F(ReconcilerTest, AdoptingAndReleasingTouchOnlyTheJobsOwnerReference) {
  Apply(SmallJob());
  Start();
  RunsReady();
  const json other = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"name", "x"}, {"uid", "other-uid"}};
  server_.Edit(kPods, "default", "mnist-worker-1", {{"metadata", {{"ownerReferences", json::array({other})}}}});
  process_->Settle();
  json owners = server_.Find(kPods, "default", "mnist-worker-1")->at("metadata").at("ownerReferences");
  ASSERT_EQ(owners.size(), 2U);
  EXPECT_EQ(owners[0], other);
  EXPECT_EQ(owners[1]["uid"], Job()["metadata"]["uid"]);
  server_.Edit(kPods, "default", "mnist-worker-1", {{"metadata", {{"labels", {{"trainyard.dev/index", "7"}}}}}});
  process_->Settle();
  owners = server_.Find(kPods, "default", "mnist-worker-1")->at("metadata").at("ownerReferences");
  EXPECT_EQ(owners, json::array({other}));
}

TEST_F(ReconcilerTest, AConfigMapThatChangedMeanwhileIsNotOverwrittenUnseen) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"worker", {{"replicas", 3}}}}}});
  server_.Inject({.verb = "update", .resource = "configmaps", .code = 409, .times = 1});
  EXPECT_FALSE(process_->Reconcile().ok());
  process_->Settle();
  const json data = server_.Find(kConfigMaps, "default", "mnist-cluster")->at("data");
  EXPECT_THAT(data["worker_hosts"].get<std::string>(), testing::HasSubstr("mnist-worker-2"));
}

TEST_F(ReconcilerTest, AChildWhoseLabelsWereTakenAwayGetsThemBack) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kPods, "default", "mnist-worker-1", {{"metadata", {{"labels", nullptr}}}});
  process_->Settle();
  EXPECT_EQ((*server_.Find(kPods, "default", "mnist-worker-1"))["metadata"]["labels"]["trainyard.dev/index"], "1");
}

TEST_F(ReconcilerTest, AChildThatLostOneLabelGetsItBackAndWasNeverAway) {
  Apply(SmallJob().ServicePerReplica());
  Start();
  RunsReady();
  for (const std::string label : {"trainyard.dev/job-name", "trainyard.dev/role", "trainyard.dev/index"}) {
    SCOPED_TRACE(label);
    const json before = server_.Find(kPods, "default", "mnist-worker-1")->at("metadata");
    for (const Resource& kind : {kPods, kServices}) {
      server_.Edit(kind, "default", "mnist-worker-1", {{"metadata", {{"labels", {{label, nullptr}}}}}});
    }
    process_->Settle();
    EXPECT_EQ(server_.Find(kServices, "default", "mnist-worker-1")->at("metadata")["labels"], before["labels"]);
    const json after = server_.Find(kPods, "default", "mnist-worker-1")->at("metadata");
    EXPECT_EQ(after["labels"], before["labels"]);
    EXPECT_EQ(after["ownerReferences"], before["ownerReferences"]);
  }
  EXPECT_EQ(Status().value("disruptions", 0), 0);
}

// The job may end at the new operator's first look, and nothing is put right in a job that has
// ended.
TEST_F(ReconcilerTest, AServerThatLostItsLabelsWhileNoOperatorRanIsCountedAtTheEnd) {
  for (const std::vector<std::string>& lost :
       {std::vector<std::string>{"trainyard.dev/job-uid"}, {"trainyard.dev/job-uid", "trainyard.dev/role"}}) {
    SCOPED_TRACE(lost.size());
    Apply(SmallJob());
    Start();
    RunsReady();
    process_.reset();
    for (const std::string& label : lost) server_.Edit(kPods, "default", "mnist-ps-0", {{"metadata", {{"labels", {{label, nullptr}}}}}});
    Exited("mnist-worker-0", 0);
    Exited("mnist-worker-1", 0);
    Exited("mnist-ps-0", 0);
    Start();
    process_->Settle();
    EXPECT_EQ(Status()["phase"], "Succeeded");
    EXPECT_EQ(Status()["replicaStatuses"]["ps"].value("succeeded", 0), 1) << Status().dump();
    EXPECT_EQ(Status().value("disruptions", 0), 0);
    EXPECT_TRUE(server_.Find(kPods, "default", "mnist-ps-0")->at("metadata")["labels"].contains("trainyard.dev/job-uid"));
    process_.reset();
    server_.Remove(kTrainingJobs, "default", "mnist");
    for (const Resource& kind : {kPods, kServices, kConfigMaps}) {
      for (const std::string& name : Names(kind)) server_.Remove(kind, "default", name);
    }
  }
}

TEST_F(ReconcilerTest, AChildWithAnothersLabelsIsReleasedThoughTheFirstTryMeetsAConflict) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kPods, "default", "mnist-worker-1", {{"metadata", {{"labels", {{"trainyard.dev/job-uid", "another"}}}}}});
  server_.Inject({.verb = "patch", .resource = "pods", .code = 409, .times = 1});
  process_->Settle();
  const json meta = server_.Find(kPods, "default", "mnist-worker-1")->at("metadata");
  EXPECT_EQ(meta["labels"]["trainyard.dev/job-uid"], "another");
  EXPECT_THAT(meta.value("ownerReferences", json::array()), testing::IsEmpty());
  EXPECT_EQ(Status()["disruptions"], 1);
}

TEST_F(ReconcilerTest, ChildrenDeletedByHandAreMadeAgain) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Remove(kServices, "default", "mnist");
  server_.Remove(kConfigMaps, "default", "mnist-cluster");
  server_.Remove(kPods, "default", "mnist-worker-1");
  process_->Settle();
  EXPECT_TRUE(server_.Find(kServices, "default", "mnist"));
  EXPECT_TRUE(server_.Find(kConfigMaps, "default", "mnist-cluster"));
  EXPECT_TRUE(server_.Find(kPods, "default", "mnist-worker-1"));
  EXPECT_EQ(Status()["restarts"], 0);
  EXPECT_EQ(Status()["disruptions"], 1);
}

TEST_F(ReconcilerTest, AConfigMapEditedByHandIsPutRight) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kConfigMaps, "default", "mnist-cluster", {{"data", {{"ps_hosts", "evil:1"}}}});
  process_->Settle();
  EXPECT_EQ((*server_.Find(kConfigMaps, "default", "mnist-cluster"))["data"]["ps_hosts"], "mnist-ps-0.mnist.default.svc:5000");
}

TEST_F(ReconcilerTest, AFinishedJobIsDeletedAfterItsTimeToLive) {
  Apply(SmallJob().Policy("ttlSecondsAfterFinished", 30));
  Start();
  RunsReady();
  Exited("mnist-worker-0", 0);
  process_->Settle();
  ASSERT_TRUE(process_->last().ok());
  clock_.Advance(absl::Seconds(30));
  ASSERT_TRUE(process_->Reconcile().ok());
  EXPECT_FALSE(server_.Find(kTrainingJobs, "default", "mnist"));
}

TEST_F(ReconcilerTest, ADeadlineIsAskedForWithoutAnyOutsideEvent) {
  Apply(SmallJob().Policy("activeDeadlineSeconds", 100));
  Start();
  RunsReady();
  const auto result = process_->Reconcile();
  ASSERT_TRUE(result.ok());
  ASSERT_TRUE(result->requeue_after);
  EXPECT_LE(*result->requeue_after, absl::Seconds(100));
  clock_.Advance(*result->requeue_after);
  process_->Settle();
  EXPECT_EQ(Status()["phase"], "Failed");
}

TEST_F(ReconcilerTest, AJobThatAFinalizerKeepsSaysSoOnceItsStatusHasSettled) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(
      kTrainingJobs, "default", "mnist",
      {{"metadata", {{"deletionTimestamp", FormatTimestamp(clock_.Now())}, {"finalizers", {"example.com/hold"}}, {"generation", 2}}}});
  const absl::StatusOr<ReconcileResult> first = process_->Reconcile();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->requeue_after, absl::Milliseconds(1500));
  clock_.Advance(absl::Milliseconds(1500));
  ASSERT_TRUE(process_->Reconcile().ok());
  EXPECT_THAT(Status()["message"].get<std::string>(), testing::HasSubstr("its finalizers are example.com/hold"));
}

TEST_F(ReconcilerTest, ATerminatingPodOnANodeThatIsNotReadyIsForceDeletedWhenTheNodeIsOutOfService) {
  server_.Put(kNodes, {{"apiVersion", "v1"},
                       {"kind", "Node"},
                       {"metadata", {{"name", "n1"}}},
                       {"status", {{"conditions", {{{"type", "Ready"}, {"status", "Unknown"}}}}}}});
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kPods, "default", "mnist-worker-1",
               {{"metadata", {{"deletionTimestamp", FormatTimestamp(clock_.Now())}, {"deletionGracePeriodSeconds", 30}}},
                {"spec", {{"nodeName", "n1"}}}});
  ASSERT_TRUE(process_->Reconcile().ok());
  clock_.Advance(absl::Seconds(61));
  process_->Settle();
  EXPECT_TRUE(server_.Find(kPods, "default", "mnist-worker-1")->at("metadata").contains("deletionTimestamp"));
  EXPECT_THAT(Status()["message"].get<std::string>(), testing::HasSubstr("on node n1, which is not Ready"));
  server_.Edit(kNodes, "", "n1", {{"spec", {{"taints", {{{"key", "node.kubernetes.io/out-of-service"}}}}}}});
  process_->Settle();
  AllReady();
  process_->Settle();
  EXPECT_EQ(Status()["phase"], "Running");
  EXPECT_FALSE(server_.Find(kPods, "default", "mnist-worker-1")->at("metadata").contains("deletionTimestamp"));
  EXPECT_EQ(Status()["restarts"], 0);
}

TEST_F(ReconcilerTest, AnEarlierJobsPodsAreWaitedForAndThenReplaced) {
  Apply(SmallJob().Policy("startPolicy", "Any"));
  Start();
  process_->Settle();
  server_.Remove(kTrainingJobs, "default", "mnist");
  Apply(SmallJob().Policy("startPolicy", "Any"));
  process_->Settle();
  EXPECT_FALSE(Status().dump().find("NameTaken") != std::string::npos);
  server_.CollectGarbage();
  process_->Settle();
  ASSERT_EQ(Names(kPods).size(), 3U);
  for (const json& pod : server_.All(kPods)) EXPECT_EQ(pod["metadata"]["labels"]["trainyard.dev/job-uid"], Job()["metadata"]["uid"]);
}

TEST_F(ReconcilerTest, EventsTellTheStory) {
  Apply(MakeJob().Replicas("worker", 1));
  Start();
  process_->events().Start();
  RunsReady();
  Exited("mnist-worker-0", 0);
  process_->Settle();
  EXPECT_TRUE(process_->events().Stop(absl::Seconds(5)));
  std::vector<std::string> reasons;
  for (const json& event : server_.All(kEvents)) reasons.push_back(event["reason"]);
  EXPECT_THAT(reasons, UnorderedElementsAre("Created", "EphemeralOutput", "Running", "Succeeded"));
}

TEST_F(ReconcilerTest, AFailoverToAHostWhoseClockIsBehindDoesNotHoldARestartBack) {
  Apply(SmallJob());
  Start();
  RunsReady();
  Exited("mnist-worker-1", 143);
  process_->Settle();
  AllReady();
  Exited("mnist-worker-1", 143);
  ASSERT_TRUE(process_->Reconcile().ok());  // counted, and its pod is deleted: the next one comes after a second
  process_.reset();
  clock_.JumpWallClock(-absl::Seconds(500));
  Start();
  process_->Settle();
  EXPECT_THAT(Names(kPods), testing::Contains("mnist-worker-1"));
}

TEST_F(ReconcilerTest, AFailoverToAHostWhoseClockIsBehindDoesNotHoldAForcedDeletionBack) {
  Apply(SmallJob());
  Start();
  RunsReady();
  const absl::Time asked = clock_.Now() + absl::Seconds(100);
  clock_.Advance(absl::Seconds(100));
  server_.Edit(kPods, "default", "mnist-worker-1",
               {{"metadata", {{"deletionTimestamp", FormatTimestamp(asked + absl::Seconds(30))}, {"deletionGracePeriodSeconds", 30}}},
                {"spec", {{"nodeName", "gone"}}}});
  process_.reset();
  clock_.JumpWallClock(-absl::Seconds(500));
  Start();
  process_->Settle();
  EXPECT_TRUE(server_.Find(kPods, "default", "mnist-worker-1")->at("metadata").contains("deletionTimestamp"));
  clock_.Advance(absl::Seconds(91));  // the grace period, and a minute
  process_->Settle();
  EXPECT_FALSE(server_.Find(kPods, "default", "mnist-worker-1")->at("metadata").contains("deletionTimestamp"));
}

}  // namespace
}  // namespace trainyard::control
