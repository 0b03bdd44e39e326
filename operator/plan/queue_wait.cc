#include "operator/plan/queue_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "operator/api/text.h"
#include "operator/children/gang_resources.h"
#include "operator/children/pod_group_builder.h"
#include "operator/children/pod_scheduling.h"
#include "operator/plan/node_wait.h"

namespace trainyard::control {
namespace {

constexpr std::string_view kKueueGates = "kueue.x-k8s.io/";  // what the names of its gates begin with

std::string Need(const TrainingJob& job, int replicas) {
  const std::string requests = Describe(RequestsOf(job, replicas));
  return requests.empty() ? Counted(replicas, "pod") : requests;
}

}  // namespace

std::string DescribeQueueWait(const Situation& situation, const Restarts& restarts) {
  const TrainingJob& job = situation.job;
  const Scheduling& scheduling = job.spec.run_policy.scheduling;
  if (!scheduling.StartsWhole() || situation.observed.pods.empty()) return "";
  bool in_kueue = false;
  std::string words;
  std::vector<ReplicaId> ids;
  for (const auto& [id, state] : restarts.states) {
    ids.push_back(id);
    const auto found = situation.observed.pods.find(id);
    if (found == situation.observed.pods.end() || found->second->meta.deletion_time) continue;
    const Pod& pod = *found->second;
    if (!pod.node.empty()) return "";
    in_kueue = in_kueue || pod.gates.find(kKueueGates) != std::string::npos;
    if (words.empty()) words = PlainSchedulerWords(pod.unschedulable);
  }
  if (in_kueue && !scheduling.kueue_queue.empty()) {
    return fmt::format("waits for {} in queue {} of Kueue; kubectl describe workloads.kueue.x-k8s.io {} -n {} says why",
                       Need(job, job.spec.AllReplicas()), scheduling.kueue_queue, KueueGroupName(job), job.meta.name_space);
  }
  if (scheduling.gang == Gang::kNone || words.empty()) return "";
  const bool has_queue = scheduling.gang == Gang::kVolcano && !scheduling.queue.empty();
  const std::string held = DescribeGates(situation.observed, ids);
  return fmt::format("waits for {}{} to start whole: {}{}{}", Need(job, MinMember(job)), has_queue ? " in queue " + scheduling.queue : "",
                     words, held.empty() ? "" : "; ", held);
}

bool WaitsForPodGroup(const Situation& situation) {
  if (situation.job.spec.run_policy.scheduling.gang != Gang::kNative || !situation.observed.pods.empty()) return false;
  const auto known = situation.observed.unwatched.find(ChildKind::kPodGroup);
  return known == situation.observed.unwatched.end() || known->second.holder == Unwatched::Holder::kNobody || PodGroupLeaves(situation);
}

bool PodGroupLeaves(const Situation& situation) {
  const auto known = situation.observed.unwatched.find(ChildKind::kPodGroup);
  return situation.job.spec.run_policy.scheduling.gang == Gang::kNative && situation.observed.pods.empty() &&
         known != situation.observed.unwatched.end() && known->second.holder == Unwatched::Holder::kLeaving &&
         known->second.min_member != MinMember(situation.job);
}

std::string DescribeUnqueued(const Situation& situation) {
  const std::string& queue = situation.job.spec.run_policy.scheduling.kueue_queue;
  const auto unqueued = [](const auto& each) {
    const Pod& pod = *each.second;
    return !pod.node.empty() && pod.IsActive() && !pod.meta.deletion_time && !pod.meta.HeldByKueue();
  };
  if (queue.empty() || std::ranges::none_of(situation.observed.pods, unqueued)) return "";
  return fmt::format("Kueue holds no room for its pods in queue {}: its configuration must name the integration pod", queue);
}

}  // namespace trainyard::control
