// The fields that the operator reads of an object are among those that the filter lets through.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "operator/api/core.h"
#include "operator/kube/object_parser.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// Of a text of the API server: what its reader sees of the whole, and of what is let through.
template <typename Object>
struct Readings {
  Object whole, filtered;
};
template <typename Object>
Readings<Object> ReadingsOf(const char* resource, const std::string& text) {
  const auto filtered = ParseObject(text, FieldFilter(ReadFields(FieldsThatAreRead().at(resource)), FieldFilter::Where::kObject));
  EXPECT_TRUE(filtered.ok()) << filtered.status();
  return {*Object::FromJson(json::parse(text)), *Object::FromJson(*filtered)};
}

TEST(ReadFields, HaveWhatIsReadOfADeployment) {
  const auto [whole, filtered] = ReadingsOf<Deployment>("deployments", R"({"metadata": {"name": "d", "generation": 3},
    "status": {"readyReplicas": 1, "unavailableReplicas": 2, "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]}})");
  EXPECT_EQ(whole.ready_replicas, 1);
  EXPECT_EQ(filtered.ready_replicas, whole.ready_replicas);
  EXPECT_EQ(whole.unready_replicas, 2);
  EXPECT_EQ(filtered.unready_replicas, whole.unready_replicas);
  EXPECT_EQ(whole.problem, "quota");
  EXPECT_EQ(filtered.problem, whole.problem);
  EXPECT_EQ(filtered.meta.generation, 3);
}

TEST(ReadFields, HaveWhatIsReadOfANode) {
  const auto [whole, filtered] = ReadingsOf<Node>("nodes", R"({"metadata": {"name": "n"},
    "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-31T07:00:00Z"}]}})");
  EXPECT_TRUE(whole.cordoned && whole.out_of_service && whole.ready);
  EXPECT_TRUE(filtered.cordoned && filtered.out_of_service && filtered.ready);
  EXPECT_EQ(filtered.ready_changed_at, whole.ready_changed_at);
}

TEST(ReadFields, HaveWhatIsReadOfAPod) {
  const auto [whole, filtered] = ReadingsOf<Pod>("pods", R"({"metadata": {"name": "p",
      "annotations": {"kubectl.kubernetes.io/default-container": "main"}},
    "spec": {"nodeName": "n", "schedulerName": "s", "schedulingGates": [{"name": "a.b/c"}, {"name": "d"}], "containers": [{"name": "proxy", "image": "p"}, {"name": "main", "image": "i"}]},
    "status": {"phase": "Failed", "reason": "Evicted", "message": "disk", "podIP": "10.0.0.1", "startTime": "2026-01-31T07:00:00Z",
      "conditions": [{"type": "Ready", "status": "True"}, {"type": "Own", "status": "False"},
                     {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"},
                     {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}],
      "initContainerStatuses": [{"name": "init", "ready": true, "restartCount": 2, "state": {"running": {"startedAt": "2026-01-31T07:00:00Z"}},
                                 "lastState": {"terminated": {"exitCode": 3}}}],
      "containerStatuses": [{"name": "trainer", "ready": true, "restartCount": 4, "state": {"waiting": {"reason": "w", "message": "m"}},
        "allocatedResourcesStatus": [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "Unhealthy"}]}],
        "lastState": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "tail"}}}]}})");
  const auto told = [](const Pod& pod) {
    json all = {pod.node,
                pod.scheduler,
                pod.main_container,
                pod.main_image,
                static_cast<int>(pod.phase),
                pod.reason,
                pod.message,
                pod.ip,
                pod.ready,
                pod.disruption_target,
                pod.disruption,
                pod.scheduler_spoke,
                pod.gates,
                pod.unschedulable,
                pod.conditions.size(),
                pod.taken_at.has_value(),
                pod.init_restarts,
                pod.unhealthy_device};
    for (const auto* containers : {&pod.init_containers, &pod.containers}) {
      for (const ContainerStatus& each : *containers) {
        all.push_back({each.name, each.ready, each.restart_count, each.running_since.has_value(), each.waiting_reason, each.waiting_message,
                       each.last_terminated->exit_code, each.last_terminated->signal, each.last_terminated->reason,
                       each.last_terminated->message});
      }
    }
    return all;
  };
  EXPECT_EQ(told(filtered), told(whole));
  EXPECT_EQ(whole.unhealthy_device, "nvidia.com/gpu GPU-1");
  EXPECT_EQ(whole.main_container, "main");
  EXPECT_EQ(whole.gates, "a.b/c, d");
}

}  // namespace
}  // namespace trainyard::control
