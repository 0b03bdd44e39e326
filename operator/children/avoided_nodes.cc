#include "operator/children/avoided_nodes.h"

#include <nlohmann/json.hpp>

#include "operator/children/pod_json.h"

namespace trainyard::control {

using nlohmann::json;

bool IsOfGroup(const TrainingJob& job, std::string_view replica) {
  return job.spec.run_policy.restart_scope == RestartScope::kJob && !replica.starts_with(Name(Role::kEvaluator));
}

bool AvoidsTogether(const TrainingJob& job, const FailedNode& failed, std::string_view replica) {
  return failed.replica == replica || (IsOfGroup(job, failed.replica) && IsOfGroup(job, replica));
}

std::vector<std::string> NodesToAvoid(const TrainingJob& job, const ReplicaId& id) {
  std::vector<std::string> nodes;
  if (!job.spec.run_policy.avoid_failed_nodes) return nodes;
  for (const FailedNode& failed : job.status.failed_nodes) {
    if (AvoidsTogether(job, failed, Name(id))) nodes.push_back(failed.node);
  }
  return nodes;
}

// https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity
void KeepAway(const TrainingJob& job, const ReplicaId& id, json& spec) {
  const std::vector<std::string> nodes = NodesToAvoid(job, id);
  if (nodes.empty()) return;
  json& affinity = Member(Member(spec, "affinity", json::value_t::object), "nodeAffinity", json::value_t::object);
  json& required = Member(affinity, "requiredDuringSchedulingIgnoredDuringExecution", json::value_t::object);
  json& terms = Member(required, "nodeSelectorTerms", json::value_t::array);
  const bool own = !terms.empty();
  if (!own) terms.push_back(json::object());
  for (json& term : terms) {
    if (!term.is_object() || (own && term.empty())) continue;  // an empty term takes no node
    json& fields = Member(term, "matchFields", json::value_t::array);
    for (const std::string& node : nodes) fields.push_back({{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", {node}}});
  }
}

}  // namespace trainyard::control
