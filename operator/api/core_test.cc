#include "operator/api/core.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/api/text.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

TEST(Pod, ReadsWhatTheOperatorNeeds) {
  const auto pod = Pod::FromJson(json::parse(R"({
    "metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "5", "deletionTimestamp": "2026-01-31T08:00:00Z",
      "labels": {"trainyard.dev/job-name": "j", "trainyard.dev/job-uid": "u", "trainyard.dev/role": "worker", "trainyard.dev/index": "3"},
      "ownerReferences": [{"kind": "X", "name": "x", "uid": "1"}, {"kind": "TrainingJob", "name": "j", "uid": "u", "controller": true}]},
    "spec": {"nodeName": "n", "containers": [{"name": "trainer"}, {"name": "sidecar"}]},
    "status": {"phase": "Running", "podIP": "10.0.0.1",
      "conditions": [{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "True"},
                     {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}],
      "initContainerStatuses": [{"restartCount": 2}],
      "containerStatuses": [{"name": "sidecar", "restartCount": 1},
        {"name": "trainer", "ready": true, "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
         "lastState": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "tail", "startedAt": "2026-01-31T07:00:00Z"}}}]}})"));
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->meta.Key(), "b/a");
  EXPECT_EQ(pod->meta.controller.uid, "u");
  EXPECT_EQ(pod->meta.labels.index, "3");
  EXPECT_TRUE(pod->meta.deletion_time);
  EXPECT_TRUE(pod->ready);
  EXPECT_TRUE(pod->disruption_target);
  EXPECT_EQ(pod->unschedulable, "0/3 nodes");
  EXPECT_EQ(pod->init_restarts, 2);
  ASSERT_NE(pod->Main(), nullptr);
  EXPECT_EQ(pod->Main()->restart_count, 4) << "the trainer, wherever the kubelet lists it";
  EXPECT_EQ(pod->Main()->waiting_reason, "CrashLoopBackOff");
  EXPECT_EQ(pod->Main()->last_terminated->exit_code, 137);
}

TEST(Pod, AnInjectedContainerBeforeTheTrainerIsNotTheTrainer) {
  const auto pod = Pod::FromJson(json::parse(R"({"metadata": {"name": "a"},
    "spec": {"containers": [{"name": "linkerd-proxy", "image": "proxy:1"}, {"name": "trainer", "image": "trainer:1"}]},
    "status": {"containerStatuses": [{"name": "linkerd-proxy", "state": {"running": {}}},
                                     {"name": "trainer", "state": {"terminated": {"exitCode": 0}}}]}})"));
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->main_image, "trainer:1");
  ASSERT_NE(pod->Main(), nullptr);
  EXPECT_TRUE(pod->Main()->terminated);
}

TEST(Pod, ItsSchedulingGatesAreNamedUpToABound) {
  const auto gates = [](const json& value) {
    return Pod::FromJson({{"metadata", {{"name", "a"}}}, {"spec", {{"schedulingGates", value}}}})->gates;
  };
  EXPECT_EQ(gates(json::parse(R"([{"name": "a.com/x"}, {"name": "b"}])")), "a.com/x, b");
  for (const char* const none : {"[]", "null", "7", R"({"name": "a"})"}) EXPECT_EQ(gates(json::parse(none)), "") << none;
  EXPECT_EQ(gates(json::parse("[{}, 7]")), "?, ?");
  EXPECT_LE(gates(json::array({{{"name", std::string(1000, 'x')}}, {{"name", "y"}}})).size(), 256);
}

TEST(Pod, ADeviceThatTheKubeletCallsUnhealthyIsNamed) {
  const auto read = [](const char* allocated) {
    const json status = {{"name", "trainer"}, {"allocatedResourcesStatus", json::parse(allocated)}};
    return Pod::FromJson({{"metadata", {{"name", "a"}}}, {"status", {{"containerStatuses", {{{"name", "side"}}, status}}}}})
        ->unhealthy_device;
  };
  EXPECT_EQ(read(R"([{"name": "rdma/hca", "resources": [{"resourceID": "h", "health": "Healthy"}]},
    {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-0", "health": "Healthy"}, {"resourceID": "GPU-1", "health": "Unhealthy"}]}])"),
            "nvidia.com/gpu GPU-1");
  for (const char* well : {"[]", "{}", "[3, {}]", R"([{"name": "a/b", "resources": [7, {"resourceID": "x", "health": "Unknown"}]}])"}) {
    EXPECT_EQ(read(well), "") << well;
  }
}

TEST(Pod, FieldsOfAWrongTypeCountAsAbsent) {
  const auto pod =
      Pod::FromJson(json::parse(R"({"metadata": {"name": "a", "labels": [], "ownerReferences": {}, "deletionTimestamp": "soon"},
    "spec": {"containers": "none"}, "status": {"phase": 7, "conditions": 3, "containerStatuses": [null, 5, {"restartCount": -3, "state": []}]}})"));
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->phase, PodPhase::kPending);
  EXPECT_FALSE(pod->meta.deletion_time);
  EXPECT_EQ(pod->containers[2].restart_count, 0);
  EXPECT_FALSE(Pod::FromJson(json::object()).ok());
  EXPECT_FALSE(Pod::FromJson(json::array()).ok());
}

TEST(ConfigMap, EqualDataHasOneHash) {
  EXPECT_EQ(ConfigMap::ContentHash({{"a", "1"}, {"b", "2"}}), ConfigMap::ContentHash(json::parse(R"({"b": "2", "a": "1"})")));
  EXPECT_NE(ConfigMap::ContentHash({{"a", "12"}, {"b", ""}}), ConfigMap::ContentHash({{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(ConfigMap::ContentHash(json()), ConfigMap::ContentHash(json::object()));
}

TEST(Node, IsReadyByItsCondition) {
  EXPECT_TRUE(Node::FromJson(json::parse(R"({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})"))
                  ->ready);
  EXPECT_FALSE(
      Node::FromJson(json::parse(R"({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})"))
          ->ready);
  EXPECT_FALSE(Node::FromJson(json::parse(R"({"metadata": {"name": "n"}})"))->ready);
}

TEST(Node, IsOutOfServiceByItsTaint) {
  const auto tainted = [](const char* key) {
    return Node::FromJson({{"metadata", {{"name", "n"}}}, {"spec", {{"taints", {{{"key", key}, {"effect", "NoExecute"}}}}}}})
        ->out_of_service;
  };
  EXPECT_TRUE(tainted("node.kubernetes.io/out-of-service"));
  EXPECT_FALSE(tainted("node.kubernetes.io/not-ready"));
  EXPECT_FALSE(Node::FromJson(json::parse(R"({"metadata": {"name": "n"}, "spec": {"taints": [3, null]}})"))->out_of_service);
}

TEST(Deployment, IsItsReadyPodsAndWhyItsPodsCannotBeMade) {
  const Deployment deployment = *Deployment::FromJson(json::parse(R"({"metadata": {"name": "d", "generation": 3}, "spec": {"replicas": 2},
    "status": {"readyReplicas": 1, "unavailableReplicas": 2, "conditions": [{"type": "Available", "status": "True", "message": "no"}, 7,
                                                  {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]}})"));
  EXPECT_EQ(deployment.meta.generation, 3);
  EXPECT_EQ(deployment.ready_replicas, 1);
  EXPECT_EQ(deployment.unready_replicas, 2);
  EXPECT_EQ(deployment.problem, "exceeded quota");
  EXPECT_EQ(Deployment::FromJson(json::parse(R"({"metadata": {"name": "d"}, "status": {"readyReplicas": -1, "conditions": {}}})"))
                ->ready_replicas,
            0);
}

TEST(Meta, FinalizersAndAForcedDeletionAreRead) {
  const ObjectMeta meta = *MetaFromJson(json::parse(R"({"metadata": {"name": "n", "deletionTimestamp": "2027-01-15T08:00:00Z",
    "deletionGracePeriodSeconds": 0, "finalizers": ["a/b", 3, "c/d"]}})"));
  EXPECT_TRUE(meta.ForceDeleted());
  EXPECT_EQ(meta.finalizers, "a/b, c/d");
  EXPECT_FALSE(MetaFromJson(json::parse(R"({"metadata": {"name": "n", "deletionGracePeriodSeconds": 0}})"))->ForceDeleted());
}

TEST(Text, IsCutBetweenCharacters) {
  EXPECT_EQ(Head("abcdef", 6), "abcdef");
  EXPECT_EQ(Head("abcdefg", 6), "abc...");
  EXPECT_EQ(Head("ab\xC3\xA9xyz", 6), "ab...");
  EXPECT_EQ(Tail("abcdefg", 6), "...efg");
  EXPECT_EQ(Tail("xyz\xC3\xA9"
                 "ab",
                 6),
            "...ab");
}

TEST(Text, ACountHasItsNounInTheRightNumber) {
  EXPECT_EQ(Counted(0, "pod"), "0 pods");
  EXPECT_EQ(Counted(1, "pod"), "1 pod");
  EXPECT_EQ(Counted(4096, "pod"), "4096 pods");
}

}  // namespace
}  // namespace trainyard::control
