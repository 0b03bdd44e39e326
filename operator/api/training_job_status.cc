// status of a TrainingJob to JSON and back.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/api/json_read.h"
#include "operator/api/restart_records.h"
#include "operator/api/training_job.h"
#include "operator/api/words.h"
#include "operator/base/timestamp.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// Absent rather than empty or zero: a status is short, and reads the same.
void Put(json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}
void Put(json& object, const char* key, int64_t value) {
  if (value != 0) object[key] = value;
}
template <typename T>
void Put(json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}
void Put(json& object, const char* key, const std::optional<absl::Time>& value) {
  if (value && *value != absl::InfinitePast()) object[key] = FormatTimestamp(*value);
}

std::optional<int> OptionalInt(const json& object, const char* key) {
  return json_read::Integer(object, key) ? std::optional<int>(json_read::Int(object, key)) : std::nullopt;
}

json ToJson(const Condition& condition) {
  return {{"type", condition.type},
          {"status", condition.status ? "True" : "False"},
          {"reason", condition.reason},
          {"message", condition.message},
          {"lastTransitionTime", FormatTimestamp(condition.last_transition)}};
}

json ToJson(const ReplicaStatus& status) {
  json result = {{"desired", status.desired},     {"active", status.active}, {"ready", status.ready},
                 {"succeeded", status.succeeded}, {"failed", status.failed}, {"restarts", status.restarts}};
  Put(result, "completed", status.completed);
  return result;
}

// For a column of `kubectl get`, which cannot read a map: "accuracy 0.973, loss 0.0812".
std::string MetricsText(const std::map<std::string, double>& metrics) {
  constexpr size_t kShown = 3;
  std::string text;
  size_t shown = 0;
  for (const auto& [name, value] : metrics) {
    if (shown++ == kShown) break;
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

json ToJson(const Progress& progress) {
  json result = {{"step", progress.step}};
  Put(result, "totalSteps", progress.total_steps);
  Put(result, "epoch", progress.epoch);
  Put(result, "percent", progress.percent);
  Put(result, "loss", progress.loss);
  if (!progress.metrics.empty()) {
    result["metrics"] = progress.metrics;
    result["evaluation"] = MetricsText(progress.metrics);
  }
  Put(result, "batchesPerSecond", progress.batches_per_second);
  Put(result, "examplesPerSecond", progress.examples_per_second);
  Put(result, "etaSeconds", progress.eta_seconds);
  Put(result, "lastCheckpointStep", progress.last_checkpoint_step);
  Put(result, "bestCheckpointStep", progress.best_checkpoint_step);
  Put(result, "stoppedEarly", progress.stopped_early);
  Put(result, "updatedTime", std::optional<absl::Time>(progress.updated_time));
  return result;
}

json ToJson(const Failure& failure) {
  json result = {{"replica", failure.replica}, {"reason", failure.reason}};
  Put(result, "pod", failure.pod);
  Put(result, "container", failure.container);
  Put(result, "node", failure.node);
  Put(result, "exitCode", failure.exit_code);
  Put(result, "signal", failure.signal);
  Put(result, "message", failure.message);
  return result;
}

json ToJson(const FailedNode& failed) { return {{"replica", failed.replica}, {"node", failed.node}}; }

json ToJson(const Serving& serving) {
  json result = {{"readyReplicas", serving.ready_replicas}};
  Put(result, "version", serving.version);
  Put(result, "url", serving.url);
  return result;
}

Progress ReadProgress(const json& status, const json& stragglers) {
  Progress progress;
  progress.step = json_read::Integer(status, "step").value_or(0);
  progress.total_steps = json_read::Integer(status, "totalSteps");
  progress.epoch = json_read::Number(status, "epoch");
  progress.percent = json_read::Number(status, "percent");
  progress.loss = json_read::Number(status, "loss");
  const json& metrics = json_read::Get(status, "metrics");
  if (metrics.is_object()) {
    for (const auto& [name, value] : metrics.items()) {
      if (value.is_number()) progress.metrics[name] = value.get<double>();
    }
  }
  progress.batches_per_second = json_read::Number(status, "batchesPerSecond");
  progress.examples_per_second = json_read::Number(status, "examplesPerSecond");
  progress.eta_seconds = json_read::Integer(status, "etaSeconds");
  progress.last_checkpoint_step = json_read::Integer(status, "lastCheckpointStep");
  progress.best_checkpoint_step = json_read::Integer(status, "bestCheckpointStep");
  progress.stopped_early = json_read::String(status, "stoppedEarly");
  progress.updated_time = json_read::Time(status, "updatedTime");
  if (stragglers.is_array()) {
    for (const json& name : stragglers) {
      if (name.is_string()) progress.stragglers.push_back(name.get<std::string>());
    }
  }
  return progress;
}

std::vector<FailedNode> ReadFailedNodes(const json& entries) {
  std::vector<FailedNode> nodes;
  if (!entries.is_array()) return nodes;
  for (const json& entry : entries) {
    FailedNode failed{.replica = json_read::String(entry, "replica"), .node = json_read::String(entry, "node")};
    if (!failed.replica.empty() && !failed.node.empty()) nodes.push_back(std::move(failed));
  }
  return nodes;
}

std::optional<JobPhase> JobPhaseFromName(const std::string& name) {
  for (size_t i = 0; i < words::kPhases.size(); ++i) {
    if (words::kPhases[i] == name) return static_cast<JobPhase>(i);
  }
  return std::nullopt;
}

}  // namespace

const Condition* TrainingJobStatus::Find(std::string_view type) const {
  for (const Condition& condition : conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

bool TrainingJobStatus::IsTrue(std::string_view type) const {
  const Condition* condition = Find(type);
  return condition != nullptr && condition->status;
}

json StatusToJson(const TrainingJobStatus& status) {
  json result = json::object();
  Put(result, "observedGeneration", status.observed_generation);
  if (status.phase) result["phase"] = Name(*status.phase);
  Put(result, "message", status.message);
  for (const Condition& condition : status.conditions) result["conditions"].push_back(ToJson(condition));
  for (const std::string& text : status.foreign_conditions) result["conditions"].push_back(json::parse(text, nullptr, false));
  for (const auto& [role, replicas] : status.replica_statuses) result["replicaStatuses"][std::string(Name(role))] = ToJson(replicas);
  result["restarts"] = status.restarts;
  Put(result, "disruptions", static_cast<int64_t>(status.disruptions));
  Put(result, "hostsEpoch", status.hosts_epoch);
  Put(result, "hostsHash", status.hosts_hash);
  Put(result, "groupEpoch", status.group_epoch);
  Put(result, "image", status.image);
  Put(result, "startTime", status.start_time);
  Put(result, "runningTime", status.running_time);
  Put(result, "completionTime", status.completion_time);
  Put(result, "selector", status.selector);
  if (status.progress) {
    result["progress"] = ToJson(*status.progress);
    if (!status.progress->stragglers.empty()) result["stragglers"] = status.progress->stragglers;
  }
  if (status.serving) result["serving"] = ToJson(*status.serving);
  if (status.failure) result["failure"] = ToJson(*status.failure);
  for (const FailedNode& failed : status.failed_nodes) result["failedNodes"].push_back(ToJson(failed));
  if (!status.restart_records.empty()) result["restartRecords"] = RestartRecordsToJson(status.restart_records);
  return result;
}

TrainingJobStatus StatusFromJson(const json& object) {
  TrainingJobStatus status;
  status.observed_generation = json_read::Integer(object, "observedGeneration").value_or(0);
  status.phase = JobPhaseFromName(json_read::String(object, "phase"));
  status.message = json_read::String(object, "message");
  const json& conditions = json_read::Get(object, "conditions");
  if (conditions.is_array()) {
    for (const json& condition : conditions) {
      const std::string type = json_read::String(condition, "type");
      if (std::find(words::kConditions.begin(), words::kConditions.end(), type) == words::kConditions.end()) {
        status.foreign_conditions.push_back(condition.dump(-1, ' ', false, json::error_handler_t::replace));
        continue;
      }
      status.conditions.push_back({type, json_read::String(condition, "status") == "True", json_read::String(condition, "reason"),
                                   json_read::String(condition, "message"), json_read::Time(condition, "lastTransitionTime")});
    }
  }
  const json& replicas = json_read::Get(object, "replicaStatuses");
  for (const Role role : kRoles) {
    if (const json* counts = json_read::Find(replicas, std::string(Name(role)).c_str())) {
      status.replica_statuses[role] = {.desired = json_read::Int(*counts, "desired"),
                                       .active = json_read::Int(*counts, "active"),
                                       .ready = json_read::Int(*counts, "ready"),
                                       .succeeded = json_read::Int(*counts, "succeeded"),
                                       .failed = json_read::Int(*counts, "failed"),
                                       .restarts = json_read::Int(*counts, "restarts"),
                                       .completed = json_read::String(*counts, "completed")};
    }
  }
  status.restarts = json_read::Int(object, "restarts");
  status.disruptions = json_read::Int(object, "disruptions");
  status.hosts_epoch = json_read::Integer(object, "hostsEpoch").value_or(0);
  status.hosts_hash = json_read::String(object, "hostsHash");
  status.group_epoch = json_read::Integer(object, "groupEpoch").value_or(0);
  status.image = json_read::String(object, "image");
  status.start_time = json_read::OptionalTime(object, "startTime");
  status.running_time = json_read::OptionalTime(object, "runningTime");
  status.completion_time = json_read::OptionalTime(object, "completionTime");
  status.selector = json_read::String(object, "selector");
  if (const json* progress = json_read::Find(object, "progress")) {
    status.progress = ReadProgress(*progress, json_read::Get(object, "stragglers"));
  }
  if (const json* serving = json_read::Find(object, "serving")) {
    status.serving = Serving{.ready_replicas = json_read::Int(*serving, "readyReplicas"),
                             .version = json_read::Integer(*serving, "version"),
                             .url = json_read::String(*serving, "url")};
  }
  if (const json* failure = json_read::Find(object, "failure")) {
    status.failure = Failure{.replica = json_read::String(*failure, "replica"),
                             .pod = json_read::String(*failure, "pod"),
                             .container = json_read::String(*failure, "container"),
                             .node = json_read::String(*failure, "node"),
                             .exit_code = OptionalInt(*failure, "exitCode"),
                             .signal = OptionalInt(*failure, "signal"),
                             .reason = json_read::String(*failure, "reason"),
                             .message = json_read::String(*failure, "message")};
  }
  status.failed_nodes = ReadFailedNodes(json_read::Get(object, "failedNodes"));
  status.restart_records = RestartRecordsFromJson(json_read::Get(object, "restartRecords"));
  return status;
}

json StatusUpdateBody(const ObjectMeta& meta, const TrainingJobStatus& status) {
  return {
      {"apiVersion", kApiVersion},
      {"kind", kKind},
      {"metadata", {{"name", meta.name}, {"namespace", meta.name_space}, {"uid", meta.uid}, {"resourceVersion", meta.resource_version}}},
      {"status", StatusToJson(status)}};
}

}  // namespace trainyard::control
