#include "operator/page/job_view.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "operator/api/index_set.h"
#include "operator/base/timestamp.h"
#include "operator/children/config_builder.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr size_t kSparkPoints = 24;
constexpr size_t kMostReplicas = 1000;

template <typename T>
void Put(json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}
void Put(json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}
void Put(json& object, const char* key, std::optional<absl::Time> value) {
  if (value && *value != absl::InfinitePast()) object[key] = FormatTimestamp(*value);
}

// Four digits: a curve is looked at, and a float as JSON has seventeen.
json Rounded(float value) {
  if (!std::isfinite(value)) return nullptr;
  const std::string text = fmt::format("{:.4g}", value);
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

void PutProgress(json& object, const Progress& progress) {
  object["step"] = progress.step;
  Put(object, "totalSteps", progress.total_steps);
  Put(object, "percent", progress.percent);
  Put(object, "loss", progress.loss);
  Put(object, "examplesPerSecond", progress.examples_per_second);
  Put(object, "etaSeconds", progress.eta_seconds);
  Put(object, "updated", std::optional(progress.updated_time));
  if (!progress.stragglers.empty()) object["stragglers"] = progress.stragglers.size();
}

json ToJson(const Termination& end) {
  json result = {{"exitCode", end.exit_code}};
  if (end.signal != 0) result["signal"] = end.signal;
  Put(result, "reason", end.reason);
  Put(result, "message", end.message);
  Put(result, "at", std::optional(end.finished_at));
  return result;
}

// What keeps the pod from running, as its kubelet or the scheduler says.
json WaitingOf(const Pod& pod) {
  if (!pod.unschedulable.empty()) return {{"reason", "Unschedulable"}, {"message", pod.unschedulable}};
  for (const auto* containers : {&pod.init_containers, &pod.containers}) {
    for (const ContainerStatus& container : *containers) {
      if (!container.waiting_reason.empty()) return {{"reason", container.waiting_reason}, {"message", container.waiting_message}};
    }
  }
  return nullptr;
}

json RowOf(const Pod& pod) {
  json row = {{"state", PodPhaseName(pod.phase)}, {"pod", pod.meta.name}, {"ready", pod.ready}};
  Put(row, "node", pod.node);
  Put(row, "ip", pod.ip);
  if (pod.meta.deletion_time) row["deleting"] = true;
  if (json waiting = WaitingOf(pod); !waiting.is_null()) row["waiting"] = std::move(waiting);
  int restarts = pod.init_restarts;
  if (const ContainerStatus* main = pod.Main()) {
    restarts += main->restart_count;
    Put(row, "since", main->running_since);
    if (main->terminated) row["ended"] = ToJson(*main->terminated);
    if (main->last_terminated) row["endedBefore"] = ToJson(*main->last_terminated);
  } else if (!pod.reason.empty()) {
    row["waiting"] = {{"reason", pod.reason}, {"message", pod.message}};
  }
  row["restarts"] = restarts;
  return row;
}

}  // namespace

json SummaryOf(const TrainingJob& job, const LossCurve& curve) {
  const TrainingJobStatus& status = job.status;
  json result = {{"uid", job.meta.uid}, {"namespace", job.meta.name_space}, {"name", job.meta.name}};
  result["phase"] = status.phase ? std::string(Name(*status.phase)) : "Pending";
  Put(result, "message", status.message);
  Put(result, "created", std::optional(job.meta.creation_time));
  Put(result, "started", status.start_time);
  Put(result, "completed", status.completion_time);
  if (job.meta.deletion_time) result["deleting"] = true;
  int ready = 0;
  int desired = 0;
  for (const auto& [role, replicas] : job.spec.replicas) desired += replicas.replicas;
  for (const auto& [role, counts] : status.replica_statuses) ready += counts.ready;
  result["ready"] = ready;
  result["desired"] = desired;
  result["restarts"] = status.restarts + status.disruptions;
  if (const Condition* stalled = status.Find("Stalled"); stalled != nullptr && stalled->status) result["stalled"] = stalled->reason;
  if (status.progress) PutProgress(result, *status.progress);
  for (const LossCurve::Point& point : curve.Points(kSparkPoints)) result["curve"].push_back({point.step, Rounded(point.loss)});
  return result;
}

json ReplicaRows(const TrainingJob& job, const PodList& pods) {
  std::map<ReplicaId, const Pod*> by_replica;
  for (const auto& pod : pods) {
    const auto id = ReplicaFromName(job, pod->meta.name);
    if (id) by_replica[*id] = pod.get();
  }
  for (const Role role : kRoles) {
    for (int index = 0; index < job.spec.Replicas(role); ++index) by_replica.try_emplace(ReplicaId{role, index}, nullptr);
  }
  std::map<Role, std::set<int>> completed;
  for (const auto& [role, counts] : job.status.replica_statuses) {
    completed[role] = ParseIndexes(counts.completed, job.spec.Replicas(role));
  }
  json rows = json::array();
  for (const auto& [id, pod] : by_replica) {
    if (rows.size() == kMostReplicas) break;
    json row = pod != nullptr ? RowOf(*pod) : json{{"state", completed[id.role].contains(id.index) ? "Completed" : "Absent"}};
    row["replica"] = Name(id);
    rows.push_back(std::move(row));
  }
  return rows;
}

json DetailOf(const TrainingJob& job, const PodList& pods, const LossCurve& curve) {
  json result = {{"summary", SummaryOf(job, LossCurve())}, {"status", StatusToJson(job.status)}, {"framework", Name(job.spec.framework)}};
  Put(result, "image", job.status.image.empty() ? job.spec.image : job.status.image);
  result["replicas"] = ReplicaRows(job, pods);
  size_t replicas = 0;
  size_t hosts = 0;
  for (const Role role : kRoles) {
    replicas += static_cast<size_t>(job.spec.Replicas(role));
    for (std::string& address : Addresses(job, role)) {
      if (hosts++ < kMostReplicas) result["hosts"][std::string(Name(role))].push_back(std::move(address));
    }
  }
  if (replicas > kMostReplicas) result["more"] = replicas - kMostReplicas;
  for (const LossCurve::Point& point : curve.Points()) {
    result["curve"].push_back({point.step, Rounded(point.loss), Rounded(point.speed)});
  }
  return result;
}

}  // namespace trainyard::control
