// spec.serve by whole reconciles: what is written, how often, and what becomes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/trainingjob/reconciler_harness.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class ServingTest : public ReconcilerTest {
 protected:
  static MakeJob Served() {
    return SmallJob()
        .Policy("startPolicy", "Any")
        .Set("/spec/training", {{"steps", 3}, {"strategy", {{"parameterServer", {{"mode", "sync"}}}}}})
        .Set("/spec/serve/replicas", 2);
  }

  void Succeeds() {
    RunsReady();
    Exited("mnist-worker-0", 0);
    process_->Settle();
  }
  std::optional<json> Deployed() { return server_.Find(kDeployments, "default", "mnist-serve"); }
  void PodsAreReady(int count) { server_.Edit(kDeployments, "default", "mnist-serve", {{"status", {{"readyReplicas", count}}}}); }
  json Condition() {
    const json status = Status();
    for (const json& condition : status["conditions"]) {
      if (condition["type"] == "Serving") return condition;
    }
    return json::object();
  }
  int Writes(const std::string& resource) {
    int writes = 0;
    for (const ApiCall& call : server_.Calls()) writes += call.IsWrite() && call.resource == resource ? 1 : 0;
    return writes;
  }
};

TEST_F(ServingTest, ADeploymentAndAServiceAreMadeOnceAndWrittenNoMore) {
  Apply(Served());
  Start();
  Succeeds();
  ASSERT_TRUE(Deployed());
  EXPECT_EQ(Deployed()->at("spec")["replicas"], 2);
  EXPECT_THAT(Names(kServices), Contains("mnist-serve"));
  PodsAreReady(2);
  process_->Settle();
  EXPECT_EQ(Condition()["status"], "False") << "the version is not known yet";
  EXPECT_EQ(Status()["serving"]["readyReplicas"], 2);
  EXPECT_EQ(Writes("deployments"), 1);
  server_.ForgetCalls();
  process_->Settle();
  for (const ApiCall& call : server_.Calls()) EXPECT_FALSE(call.IsWrite()) << call.verb << " " << call.resource;
}

TEST_F(ServingTest, ARestartedOperatorWritesWhatChangesNothing) {
  Apply(Served());
  Start();
  Succeeds();
  const json before = *Deployed();
  process_.reset();
  server_.ForgetCalls();
  Start();
  process_->Settle();
  EXPECT_EQ(Writes("deployments"), 1);
  EXPECT_EQ(Deployed(), before);
}

TEST_F(ServingTest, AnEditOfTheJobIsFollowedAndAnEditOfTheDeploymentIsPutBack) {
  Apply(Served());
  Start();
  Succeeds();
  server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"serve", {{"replicas", 5}}}}}});
  process_->Settle();
  EXPECT_EQ(Deployed()->at("spec")["replicas"], 5);
  const json right = Deployed()->at("spec");
  server_.Edit(kDeployments, "default", "mnist-serve",
               {{"spec", {{"replicas", 1}, {"paused", true}, {"template", {{"spec", {{"nodeName", "mine"}}}}}}}});
  process_->Settle();
  clock_.Advance(absl::Seconds(10));
  process_->Settle();
  EXPECT_EQ(Deployed()->at("spec"), right) << "what was added is gone as well";
}

TEST_F(ServingTest, BothGoWithSpecServeAndNothingElseDoes) {
  Apply(Served());
  Start();
  Succeeds();
  server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"serve", nullptr}}}});
  process_->Settle();
  EXPECT_FALSE(Deployed());
  EXPECT_THAT(Names(kServices), Not(Contains("mnist-serve")));
  EXPECT_THAT(Names(kServices), Contains("mnist"));
  EXPECT_THAT(Names(kPods), Contains("mnist-worker-0"));
  EXPECT_FALSE(Status().contains("serving"));
}

TEST_F(ServingTest, BothGoWithTheJobObject) {
  Apply(Served());
  Start();
  Succeeds();
  ASSERT_TRUE(Deployed());
  server_.Remove(kTrainingJobs, "default", "mnist");
  server_.CollectGarbage();
  process_->Settle();
  EXPECT_FALSE(Deployed());
  EXPECT_THAT(Names(kServices), IsEmpty());
}

TEST_F(ServingTest, ADeploymentThatIsNotTheJobsIsLeftAlone) {
  const json own =
      server_.Put(kDeployments, {{"metadata", {{"name", "mnist-serve"}, {"namespace", "default"}}}, {"spec", {{"replicas", 7}}}});
  Apply(Served());
  Start();
  Succeeds();
  server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"serve", {{"replicas", 5}}}}}});
  process_->Settle();
  EXPECT_EQ(Condition()["reason"], "NameTaken");
  server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"serve", nullptr}}}});
  process_->Settle();
  EXPECT_EQ(Deployed(), own);
}

TEST_F(ServingTest, ARefusalDoesNotHoldUpTheTrainingAndIsTriedAgain) {
  for (int i = 0; i < 20; ++i) {
    server_.Inject({.verb = "create", .resource = "deployments", .code = 403, .reason = "Forbidden", .message = "exceeded quota: q"});
  }
  Apply(Served().Set("/spec/serve/when", "best").Set("/spec/training/checkpoint/keepBest", json::object()));
  Start();
  RunsReady();
  EXPECT_EQ(Condition()["reason"], "CannotCreate");
  EXPECT_EQ(Status()["phase"], "Running");
  EXPECT_EQ(Status().dump().find("Stalled"), std::string::npos);
  server_.ClearFaults();
  clock_.Advance(absl::Minutes(1));
  process_->Settle();
  EXPECT_TRUE(Deployed());
}

TEST_F(ServingTest, ARefusedChangeIsToldAndWhatServesStays) {
  Apply(Served());
  Start();
  Succeeds();
  const json before = Deployed()->at("spec");
  server_.Inject(
      {.verb = "patch", .resource = "deployments", .code = 422, .reason = "Invalid", .message = "spec: Invalid value", .times = 100});
  server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"serve", {{"replicas", 5}}}}}});
  process_->Settle();
  EXPECT_EQ(Deployed()->at("spec"), before);
  EXPECT_LE(Writes("deployments"), 9) << "the wait between two attempts doubles";
}

TEST_F(ServingTest, ADeploymentWithoutItsLabelsGetsThemBackAndAnOrphanIsAdopted) {
  Apply(Served());
  Start();
  Succeeds();
  const json labels = Deployed()->at("metadata")["labels"];
  server_.Edit(kDeployments, "default", "mnist-serve", {{"metadata", {{"labels", {{"trainyard.dev/job-uid", nullptr}}}}}});
  process_->Settle();
  EXPECT_EQ(Deployed()->at("metadata")["labels"], labels);
  server_.Edit(kDeployments, "default", "mnist-serve", {{"metadata", {{"ownerReferences", json::array()}}}});
  process_->Settle();
  EXPECT_EQ(Deployed()->at("metadata")["ownerReferences"].size(), 1U);
}

TEST_F(ServingTest, AnOperatorThatIsKilledAtAnyWriteLeavesNothingUndone) {
  for (int write = 0; write < 24; ++write) {
    for (const auto point : {FakeApiServer::CrashPoint::kBefore, FakeApiServer::CrashPoint::kAfter}) {
      FakeClock clock{kStart};
      FakeApiServer server(clock);
      server.Put(kTrainingJobs, Served().Set("/status", {{"phase", "Succeeded"}, {"startTime", FormatTimestamp(kStart)}}).Object());
      server.CrashAtWrite(write, point);
      {
        Process(server, clock).Settle();
      }
      if (!server.Crashed()) {
        ASSERT_GE(write, 2) << "a Deployment and a Service are written";
        return;
      }
      server.Revive();
      Process(server, clock).Settle();
      ASSERT_TRUE(server.Find(kDeployments, "default", "mnist-serve")) << write;
      EXPECT_TRUE(server.Find(kServices, "default", "mnist-serve")) << write;
    }
  }
}

}  // namespace
}  // namespace trainyard::control
