// Whole reconciles when the API server refuses a job's children.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "operator/trainingjob/reconciler_harness.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFull[] = "pods \"x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2";

class RefusedChildrenTest : public ReconcilerTest {
 protected:
  // The next `times` pods are not to be created.
  void Refuse(int code, const std::string& words, int times = 1'000'000) {
    server_.Inject({.verb = "create", .resource = "pods", .code = code, .reason = "Forbidden", .message = words, .times = times});
  }
  json Stalled() { return ConditionOf("Stalled"); }
  json ConditionOf(const std::string& type) {
    const json status = Status();
    for (const json& condition : status.value("conditions", json::array())) {
      if (condition["type"] == type) return condition;
    }
    return {{"status", "absent"}, {"reason", ""}, {"message", ""}};
  }
  int CreatedPods() {
    int calls = 0;
    for (const ApiCall& call : server_.Calls()) calls += call.verb == "create" && call.resource == "pods" ? 1 : 0;
    return calls;
  }
  std::vector<std::string> EventsOf(const std::string& reason) {
    std::vector<std::string> notes;
    for (const json& event : server_.All(kEvents)) {
      if (event["reason"] == reason) notes.push_back(event["note"]);
    }
    return notes;
  }
};

TEST_F(RefusedChildrenTest, AFullQuotaIsSaidInStatusWithTheServersWordsAndClearedOnceThereIsRoom) {
  Apply(SmallJob());
  Start();
  Refuse(403, kFull);
  ASSERT_TRUE(process_->Reconcile().ok());
  EXPECT_EQ(Stalled()["status"], "True");
  EXPECT_EQ(Stalled()["reason"], "CannotCreate");
  EXPECT_THAT(Stalled()["message"].get<std::string>(), HasSubstr(kFull));
  EXPECT_THAT(Stalled()["message"].get<std::string>(), HasSubstr("raise the quota of namespace default"));
  EXPECT_EQ(Status()["message"], Stalled()["message"]);
  EXPECT_EQ(Status()["phase"], "Pending");
  EXPECT_FALSE(Status().contains("startTime")) << "a job without a pod has not started";
  EXPECT_THAT(Names(kServices), testing::ElementsAre("mnist")) << "what is not refused is made";
  server_.ClearFaults();
  clock_.Advance(absl::Minutes(1));
  RunsReady();
  EXPECT_EQ(Stalled()["status"], "False");
  EXPECT_EQ(Status()["phase"], "Running");
}

TEST_F(RefusedChildrenTest, TheServerIsAskedAgainWithGrowingWaitsAndToldOfOnce) {
  Apply(SmallJob().Policy("startPolicy", "Any").Replicas("worker", 1000));
  Start();
  process_->events().Start();
  Refuse(403, kFull);
  absl::Duration passed = absl::ZeroDuration();
  while (passed < absl::Minutes(10)) {
    const auto result = process_->Reconcile();
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->requeue_after);
    const absl::Duration wait = std::max(*result->requeue_after, absl::Milliseconds(1));
    clock_.Advance(wait);
    passed += wait;
  }
  EXPECT_LE(CreatedPods(), 25) << "a server at first, then one pod after 1, 2, 4 … 60 s";
  EXPECT_GE(CreatedPods(), 10);
  EXPECT_TRUE(process_->events().Stop(absl::Seconds(5)));
  EXPECT_THAT(EventsOf("CannotCreate"), ElementsAre(HasSubstr("1001 Pods cannot be created")));
  EXPECT_LT(Status().dump().size(), 4096U);
}

TEST_F(RefusedChildrenTest, TheLogSaysARefusalOnceAndAnotherOneToo) {
  spdlog::set_level(spdlog::level::info);
  Apply(SmallJob());
  Start();
  const auto lines = [&](const std::string& words) {
    Refuse(403, words);
    testing::internal::CaptureStdout();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(process_->Reconcile().ok());
      clock_.Advance(absl::Minutes(1));
    }
    const std::vector<std::string> log = absl::StrSplit(testing::internal::GetCapturedStdout(), '\n');
    server_.ClearFaults();
    return std::ranges::count_if(log, [&](const std::string& line) { return absl::StrContains(line, words); });
  };
  EXPECT_EQ(lines(kFull), 1);
  EXPECT_EQ(lines(kFull), 0);
  EXPECT_EQ(lines("pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\""), 1);
  EXPECT_GE(CreatedPods(), 9);
}

TEST_F(RefusedChildrenTest, ServersHaveTheRoomThatThereIs) {
  Apply(SmallJob().Policy("startPolicy", "Any").Replicas("ps", 2).Replicas("worker", 50));
  Start();
  // Of the first eight requests two are granted; which, the order of the plan says.
  server_.Inject(
      {.verb = "create", .resource = "pods", .code = 403, .reason = "Forbidden", .message = kFull, .skip = 2, .times = 1'000'000});
  ASSERT_TRUE(process_->Reconcile().ok());
  EXPECT_THAT(Names(kPods), ElementsAre("mnist-ps-0", "mnist-ps-1"));
  EXPECT_THAT(Stalled()["message"].get<std::string>(), HasSubstr("50 Pods cannot be created"));
}

TEST_F(RefusedChildrenTest, AMalformedPodMakesAJobThatHasNoneInvalidAndAnEditIsTriedAtOnce) {
  Apply(SmallJob());
  Start();
  const std::string words =
      "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.containers[0].comand\"";
  Refuse(400, words);
  process_->Settle();
  EXPECT_EQ(Status()["phase"], "Invalid");
  EXPECT_EQ(ConditionOf("Invalid")["reason"], "RefusedByServer");
  EXPECT_THAT(ConditionOf("Invalid")["message"].get<std::string>(), HasSubstr("unknown field \"spec.containers[0].comand\""));
  EXPECT_EQ(Stalled()["reason"], "CannotCreate");
  const json told = Status();
  clock_.Advance(absl::Minutes(5));
  process_->Settle();
  EXPECT_EQ(Status(), told) << "nothing flips while it is asked again";
  server_.ClearFaults();
  server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"runPolicy", {{"backoffLimit", 3}}}}}});
  ASSERT_TRUE(process_->Reconcile().ok());
  EXPECT_THAT(Names(kPods), ElementsAre("mnist-ps-0"));
  RunsReady();
  EXPECT_EQ(Status()["phase"], "Running");
  EXPECT_EQ(ConditionOf("Invalid")["status"], "False");
}

TEST_F(RefusedChildrenTest, ARunningJobGoesOnWhenOneOfItsPodsCannotBeMadeAgain) {
  Apply(SmallJob());
  Start();
  RunsReady();
  Refuse(422, "Pod \"x\" is invalid: spec.containers[0].image: Required value");
  Exited("mnist-worker-1", 143);
  process_->Settle();
  EXPECT_NE(Status()["phase"], "Invalid");
  EXPECT_EQ(Stalled()["reason"], "CannotCreate");
  EXPECT_THAT(Names(kPods), ElementsAre("mnist-ps-0", "mnist-worker-0"));
  server_.ClearFaults();
  clock_.Advance(absl::Minutes(5));
  RunsReady();
  EXPECT_EQ(Status()["phase"], "Running");
}

TEST_F(RefusedChildrenTest, ARestartedOperatorSaysTheSameUntilItKnowsBetter) {
  Apply(SmallJob());
  Start();
  Refuse(403, kFull);
  ASSERT_TRUE(process_->Reconcile().ok());
  const json told = Status();
  Start();
  process_->events().Start();
  ASSERT_TRUE(process_->Reconcile().ok());
  ASSERT_TRUE(process_->Reconcile().ok());
  EXPECT_EQ(Status().dump(1), told.dump(1));
  EXPECT_TRUE(process_->events().Stop(absl::Seconds(5)));
  EXPECT_THAT(EventsOf("CannotCreate"), IsEmpty());
}

TEST_F(RefusedChildrenTest, AMissingRightToSecretsIsSaidByTheChartsValue) {
  Apply(MakeJob().Framework("MPI").Replicas("worker", 2).Claim("data").Policy("startPolicy", "Any"));
  Start();
  server_.Inject({.verb = "create",
                  .resource = "secrets",
                  .code = 403,
                  .reason = "Forbidden",
                  .message = "secrets is forbidden: User \"op\" cannot create resource \"secrets\"",
                  .times = 1000});
  process_->Settle();
  EXPECT_THAT(Stalled()["message"].get<std::string>(), HasSubstr("--set mpi.enabled=true"));
  EXPECT_THAT(Names(kPods), IsEmpty()) << "they would hang without their keys";
}

}  // namespace
}  // namespace trainyard::control
