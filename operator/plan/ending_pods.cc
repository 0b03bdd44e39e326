#include "operator/plan/ending_pods.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/base/timestamp.h"

namespace trainyard::control {
namespace {

// What keeps the pod, and what to do.
Stall Explain(const Situation& situation, const ReplicaId& id, const Pod& pod) {
  const auto node = situation.observed.down_nodes.find(pod.node);
  const std::string what = fmt::format("{} has been Terminating since {}", Name(id), FormatTimestamp(*pod.meta.deletion_time));
  if (!pod.meta.finalizers.empty() && (pod.meta.ForceDeleted() || !pod.IsActive())) {
    return {.reason = "Terminating",
            .message = fmt::format("{}: its finalizers are {}; the pod goes when their owner has removed them", what, pod.meta.finalizers)};
  }
  if (node != situation.observed.down_nodes.end() && node->second == NodeDown::kNotReady) {
    return {
        .reason = "NodeNotReady",
        .message = fmt::format("{} on node {}, which is not Ready; its process may still run, so the replica is recreated when the node "
                               "is back; if the machine is off, delete the node or taint it node.kubernetes.io/out-of-service, or set "
                               "runPolicy.lostNodePolicy to ForceDelete",
                               what, pod.node)};
  }
  return {.reason = "Terminating",
          .message = fmt::format("{} on node {}: its kubelet has not ended it yet; look at the node", what, pod.node)};
}

}  // namespace

Stall FindPodThatStays(const Situation& situation) {
  Stall stall;
  for (const auto& [id, pod] : situation.observed.pods) {
    if (!pod->meta.deletion_time) continue;
    const absl::Time overdue_at = *pod->meta.deletion_time + situation.options.stalled_start_after;
    if (situation.now >= overdue_at) return Explain(situation, id, *pod);
    stall.requeue_at = std::min(overdue_at, stall.requeue_at.value_or(absl::InfiniteFuture()));
  }
  return stall;
}

}  // namespace trainyard::control
