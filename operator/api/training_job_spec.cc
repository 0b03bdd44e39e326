// spec of a TrainingJob from JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/api/devices.h"
#include "operator/api/json_read.h"
#include "operator/api/main_container.h"
#include "operator/api/schema.h"
#include "operator/api/training_job.h"
#include "operator/api/words.h"
#include "operator/base/status_macros.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// A word that is not in the list reads as the default; CheckAgainstSchema has told of it.
template <typename Enum, size_t size>
Enum Word(const json& object, const char* key, const std::array<std::string_view, size>& words, Enum fallback) {
  const std::string word = json_read::String(object, key);
  for (size_t i = 0; i < size; ++i) {
    if (words[i] == word) return static_cast<Enum>(i);
  }
  return fallback;
}

std::optional<absl::Duration> Seconds(const json& object, const char* key) {
  const std::optional<int64_t> seconds = json_read::Integer(object, key);
  return seconds ? std::optional<absl::Duration>(absl::Seconds(*seconds)) : std::nullopt;
}

// The contract's exit codes hold where the replicas are known to keep them.
RestartPolicy DefaultRestartPolicy(Framework framework) {
  return framework == Framework::kTrainyard ? RestartPolicy::kExitCode : RestartPolicy::kOnFailure;
}

// Hydra's ranks call the launcher by its pod's short name, which only a service of that name makes
// known.
ServicesMode DefaultServices(Framework framework) {
  return framework == Framework::kMpi ? ServicesMode::kPerReplica : ServicesMode::kHeadless;
}

ReplicaSpec ReadReplica(const json& spec, Framework framework) {
  ReplicaSpec replica;
  replica.replicas = std::max(0, json_read::Int(spec, "replicas", 1));
  replica.restart_policy = Word(spec, "restartPolicy", words::kRestartPolicies, DefaultRestartPolicy(framework));
  replica.resources = json_read::Text(spec, "resources");
  replica.pod_template = json_read::Text(spec, "template");
  const json& pod_template = json_read::Get(spec, "template");
  const json& containers = json_read::Get(json_read::Get(pod_template, "spec"), "containers");
  const json* own =
      containers.is_array() && !containers.empty() ? json_read::Find(containers[MainContainerIndex(pod_template)], "resources") : nullptr;
  const json& resources = own != nullptr ? *own : json_read::Get(spec, "resources");
  replica.gpus = WholeGpus(resources);
  replica.asks_for_device = AsksForDevice(resources);
  return replica;
}

ExitCodesPattern ReadExitCodes(const json& object) {
  ExitCodesPattern pattern{
      .container = json_read::String(object, "containerName"), .in = json_read::String(object, "operator") == "In", .values = {}};
  const json& values = json_read::Get(object, "values");
  if (!values.is_array()) return pattern;
  for (const json& value : values) {
    if (value.is_number_integer()) pattern.values.push_back(value.get<int>());
  }
  return pattern;
}

std::vector<PodFailureRule> ReadFailureRules(const json& policy) {
  std::vector<PodFailureRule> rules;
  const json& entries = json_read::Get(policy, "rules");
  if (!entries.is_array()) return rules;
  for (const json& entry : entries) {
    PodFailureRule& rule = rules.emplace_back();
    rule.action = Word(entry, "action", words::kFailureActions, FailureAction::kCount);
    if (const json* codes = json_read::Find(entry, "onExitCodes")) rule.exit_codes = ReadExitCodes(*codes);
    const json& conditions = json_read::Get(entry, "onPodConditions");
    if (!conditions.is_array()) continue;
    for (const json& condition : conditions) {
      rule.conditions.push_back({.type = json_read::String(condition, "type"), .status = json_read::String(condition, "status", "True")});
    }
  }
  return rules;
}

RunPolicy ReadRunPolicy(const json& spec) {
  RunPolicy policy;
  policy.clean_pod_policy = Word(spec, "cleanPodPolicy", words::kCleanPodPolicies, CleanPodPolicy::kRunning);
  policy.ttl_after_finished = Seconds(spec, "ttlSecondsAfterFinished");
  policy.active_deadline = Seconds(spec, "activeDeadlineSeconds");
  policy.backoff_limit = json_read::Int(spec, "backoffLimit", 6);
  policy.avoid_failed_nodes = json_read::Bool(spec, "avoidFailedNodes");
  policy.lost_node_policy = Word(spec, "lostNodePolicy", words::kLostNodePolicies, LostNodePolicy::kWait);
  policy.suspend = json_read::Bool(spec, "suspend");
  policy.success_policy = Word(spec, "successPolicy", words::kSuccessPolicies, SuccessPolicy::kChief);
  policy.start_policy = Word(spec, "startPolicy", words::kStartPolicies, StartPolicy::kPsReady);
  const json& rules = json_read::Get(spec, "exitCodes");
  if (rules.is_array()) {
    for (const json& rule : rules) {
      policy.exit_codes.push_back(
          {json_read::Int(rule, "from"), json_read::Int(rule, "to"), Word(rule, "action", words::kExitActions, ExitAction::kFail)});
    }
  }
  policy.failure_rules = ReadFailureRules(json_read::Get(spec, "podFailurePolicy"));
  const json& scheduling = json_read::Get(spec, "scheduling");
  policy.scheduling.gang = Word(scheduling, "gang", words::kGangs, Gang::kNone);
  if (json_read::Integer(scheduling, "minAvailable")) policy.scheduling.min_available = json_read::Int(scheduling, "minAvailable", 1);
  policy.scheduling.queue = json_read::String(scheduling, "queue");
  policy.scheduling.priority_class = json_read::String(scheduling, "priorityClass");
  policy.scheduling.topology_key = json_read::String(scheduling, "topologyKey");
  policy.scheduling.placement = Word(scheduling, "placement", words::kPlacements, Placement::kClose);
  return policy;
}

// Programs of these frameworks add over a fixed group, which cannot take one member back.
bool HasFixedGroup(const TrainingJobSpec& spec) {
  switch (spec.framework) {
    case Framework::kPyTorch:
      return !spec.elastic;
    case Framework::kMpi:
    case Framework::kJax:
    case Framework::kXgBoost:
      return true;
    default:
      return false;
  }
}

RestartScope DefaultRestartScope(const TrainingJobSpec& spec) {
  const bool always =
      std::ranges::any_of(spec.replicas, [](const auto& each) { return each.second.restart_policy == RestartPolicy::kAlways; });
  return HasFixedGroup(spec) && !always ? RestartScope::kJob : RestartScope::kReplica;
}

// Whether a failed replica of the role gets a new pod, whatever the kubelet could do: with all
// others, on another node, or as rules say.
bool EndsPods(const RunPolicy& policy, Role role) {
  return policy.avoid_failed_nodes || !policy.failure_rules.empty() ||
         (policy.restart_scope == RestartScope::kJob && role != Role::kEvaluator);
}

void ReadRestartScope(const json& run_policy, TrainingJobSpec& spec) {
  spec.run_policy.restart_scope = Word(run_policy, "restartScope", words::kRestartScopes, DefaultRestartScope(spec));
  for (auto& [role, replica] : spec.replicas) {
    if (replica.restart_policy == RestartPolicy::kOnFailure && EndsPods(spec.run_policy, role))
      replica.restart_policy = RestartPolicy::kRecreate;
  }
}

ServeSpec ReadServe(const json& object) {
  ServeSpec serve;
  serve.replicas = std::max(0, json_read::Int(object, "replicas", serve.replicas));
  serve.when = Word(object, "when", words::kServeWhens, serve.when);
  serve.resources = json_read::Text(object, "resources");
  return serve;
}

TrainingJobSpec ReadSpec(const json& json_spec) {
  TrainingJobSpec spec;
  spec.framework = Word(json_spec, "framework", words::kFrameworks, Framework::kTrainyard);
  spec.image = json_read::String(json_spec, "image");
  for (const Role role : kRoles) {
    if (const json* replica = json_read::Find(json_spec, Name(role))) spec.replicas[role] = ReadReplica(*replica, spec.framework);
  }
  if (const json* elastic = json_read::Find(json_spec, "elastic")) {
    spec.elastic = {.min_workers = json_read::Int(*elastic, "minWorkers", 1), .max_workers = json_read::Int(*elastic, "maxWorkers", 1)};
  }
  spec.training = json_read::Text(json_spec, "training");
  spec.run_policy = ReadRunPolicy(json_read::Get(json_spec, "runPolicy"));
  ReadRestartScope(json_read::Get(json_spec, "runPolicy"), spec);
  if (const json* storage = json_read::Find(json_spec, "storage")) {
    spec.storage.given = true;
    spec.storage.claim_name = json_read::String(*storage, "claimName");
    spec.storage.mount_path = json_read::String(*storage, "mountPath", spec.storage.mount_path);
  }
  const json& network = json_read::Get(json_spec, "network");
  spec.network.port = json_read::Int(network, "port", spec.network.port);
  spec.network.services = Word(network, "services", words::kServicesModes, DefaultServices(spec.framework));
  spec.network.host_list = Word(network, "hostList", words::kHostLists, HostList::kDense);
  spec.network.cluster_domain = json_read::String(network, "clusterDomain");
  if (json_read::Integer(network, "progressPort")) spec.network.progress_port = json_read::Int(network, "progressPort");
  spec.network.tls = json_read::Bool(network, "tls", false);
  if (const json* serve = json_read::Find(json_spec, "serve")) spec.serve = ReadServe(*serve);
  spec.managed_by = json_read::String(json_spec, "managedBy", spec.managed_by);
  return spec;
}

// A field that the API server dropped is still in the text that kubectl applied. A job that has
// started goes on without it, as before.
void CheckLastApplied(const json& object, TrainingJob& job) {
  const json& annotations = json_read::Get(json_read::Get(object, "metadata"), "annotations");
  const std::string text = json_read::String(annotations, "kubectl.kubernetes.io/last-applied-configuration");
  if (text.empty()) return;
  const json applied = json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<FieldError> unknown;
  FindUnknownFields(json_read::Get(applied, "spec"), TrainingJobSpecSchema(), "spec", unknown);
  for (FieldError& error : unknown) {
    const bool known =
        std::any_of(job.unknown.begin(), job.unknown.end(), [&](const FieldError& other) { return other.path == error.path; });
    if (!known) (job.status.start_time ? job.unknown : job.problems).push_back(std::move(error));
  }
}

}  // namespace

int TrainingJobSpec::Replicas(Role role) const {
  const ReplicaSpec* spec = Find(role);
  return spec == nullptr ? 0 : spec->replicas;
}

int TrainingJobSpec::AllReplicas() const {
  int all = 0;
  for (const auto& [role, spec] : replicas) all += spec.replicas;
  return all;
}

const ReplicaSpec* TrainingJobSpec::Find(Role role) const {
  const auto it = replicas.find(role);
  return it == replicas.end() ? nullptr : &it->second;
}

std::optional<int> TrainingJobSpec::ProgressPort() const {
  return framework == Framework::kTrainyard ? network.port + 1 : network.progress_port;
}

absl::StatusOr<TrainingJob> TrainingJob::FromJson(const json& object) {
  TrainingJob job;
  TY_ASSIGN_OR_RETURN(job.meta, MetaFromJson(object));
  const json& spec = json_read::Get(object, "spec");
  job.spec = ReadSpec(spec);
  const json& labels = json_read::Get(json_read::Get(object, "metadata"), "labels");
  job.spec.run_policy.scheduling.kueue_queue = json_read::String(labels, kKueueQueueLabel);
  job.spec.run_policy.scheduling.kueue_priority_class = json_read::String(labels, kKueuePriorityLabel);
  job.status = StatusFromJson(json_read::Get(object, "status"));
  CheckAgainstSchema(spec, TrainingJobSpecSchema(), "spec", job.problems, job.unknown);
  CheckLastApplied(object, job);
  return job;
}

}  // namespace trainyard::control
