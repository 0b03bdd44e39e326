#include "operator/children/avoided_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/children/pod_builder.h"
#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const json kFailed = {
    {{"replica", "worker-0"}, {"node", "a"}}, {{"replica", "worker-1"}, {"node", "b"}}, {{"replica", "evaluator-0"}, {"node", "c"}}};

MakeJob Avoiding() {
  return MakeJob().Replicas("worker", 3).Replicas("evaluator", 1).Policy("avoidFailedNodes", true).Set("/status/failedNodes", kFailed);
}

json Terms(const MakeJob& job, const ReplicaId& id) {
  const json spec = BuildPod(job.Build(), id)["spec"];
  if (!spec.contains("affinity")) return nullptr;
  return spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
}

TEST(AvoidedNodes, AReplicaKeepsAwayFromItsOwn) {
  const TrainingJob job = Avoiding().Build();
  EXPECT_THAT(NodesToAvoid(job, {Role::kWorker, 1}), ElementsAre("b"));
  EXPECT_THAT(NodesToAvoid(job, {Role::kWorker, 2}), IsEmpty());
  EXPECT_EQ(Terms(Avoiding(), {Role::kWorker, 1}).dump(),
            R"([{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["b"]}]}])");
  EXPECT_TRUE(Terms(Avoiding(), {Role::kWorker, 2}).is_null());
  EXPECT_TRUE(Terms(Avoiding().Policy("avoidFailedNodes", false), {Role::kWorker, 1}).is_null());
}

TEST(AvoidedNodes, ReplicasThatRestartTogetherKeepAwayFromAllOfThem) {
  const TrainingJob job = Avoiding().Policy("restartScope", "Job").Build();
  EXPECT_THAT(NodesToAvoid(job, {Role::kWorker, 2}), ElementsAre("a", "b"));
  EXPECT_THAT(NodesToAvoid(job, {Role::kEvaluator, 0}), ElementsAre("c"));
}

TEST(AvoidedNodes, EveryTermOfTheTemplateKeepsAwayToo) {
  const json terms = json::parse(
      R"([{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, {}, {"matchExpressions": [{"key": "old", "operator": "Exists"}]}])");
  const json pod_template = {
      {"spec",
       {{"containers", {{{"name", "trainer"}}}},
        {"affinity", {{"nodeAffinity", {{"requiredDuringSchedulingIgnoredDuringExecution", {{"nodeSelectorTerms", terms}}}}}}}}}};
  const json made = Terms(Avoiding().Template("worker", pod_template), {Role::kWorker, 0});
  ASSERT_EQ(made.size(), 3U);
  for (const int term : {0, 2}) {
    EXPECT_EQ(made[term]["matchExpressions"], terms[term]["matchExpressions"]);
    EXPECT_EQ(made[term]["matchFields"].dump(), R"([{"key":"metadata.name","operator":"NotIn","values":["a"]}])");
  }
  EXPECT_EQ(made[1], json::object()) << "it takes no node as it is";
}

TEST(AvoidedNodes, AHostileStatusReadsAsFarAsItMakesSense) {
  const json hostile = json::parse(
      R"([7, null, {"replica": "worker-1"}, {"replica": "worker-1", "node": ""}, {"replica": "worker-1", "node": "b", "x": 1}])");
  EXPECT_THAT(Avoiding().Set("/status/failedNodes", hostile).Build().status.failed_nodes, ElementsAre(FailedNode{"worker-1", "b"}));
  EXPECT_THAT(Avoiding().Set("/status/failedNodes", "x").Build().status.failed_nodes, IsEmpty());
}

}  // namespace
}  // namespace trainyard::control
