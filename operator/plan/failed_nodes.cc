#include "operator/plan/failed_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "operator/children/avoided_nodes.h"

namespace trainyard::control {
namespace {

constexpr size_t kMostOfJob = 64;
constexpr size_t kMostEvents = 8;

// The entries of those that keep away from the same nodes.
class Memory {
 public:
  Memory(const Situation& situation, const Restarts& restarts) : job_(situation.job), observed_(situation.observed), restarts_(restarts) {}

  std::vector<FailedNode> Run() {
    nodes_ = job_.status.failed_nodes;
    std::erase_if(nodes_, [&](const FailedNode& known) { return observed_.nodes && observed_.nodes->gone.contains(known.node); });
    const size_t skipped = restarts_.failed_nodes.size() > kMostOfJob ? restarts_.failed_nodes.size() - kMostOfJob : 0;
    for (size_t i = skipped; i < restarts_.failed_nodes.size(); ++i) Add(restarts_.failed_nodes[i]);
    if (nodes_.size() > kMostOfJob) nodes_.erase(nodes_.begin(), nodes_.end() - kMostOfJob);
    std::set<ReplicaId> waiting = ReplicasThatNeedAPod();
    for (const ReplicaId& id : waiting) LeaveOne(id);
    return std::move(nodes_);
  }

 private:
  void Add(const FailedNode& failed) {
    std::erase_if(nodes_,
                  [&](const FailedNode& known) { return known.node == failed.node && AvoidsTogether(job_, known, failed.replica); });
    nodes_.push_back(failed);
    const auto same = [&](const FailedNode& known) { return AvoidsTogether(job_, known, failed.replica); };
    if (static_cast<size_t>(std::ranges::count_if(nodes_, same)) > kMostAvoidedNodes) nodes_.erase(std::ranges::find_if(nodes_, same));
  }

  // Those that have an entry.
  std::set<ReplicaId> ReplicasThatNeedAPod() const {
    std::set<ReplicaId> waiting;
    if (nodes_.empty()) return waiting;
    for (const auto& [role, replica] : job_.spec.replicas) {
      for (int i = 0; i < replica.replicas; ++i) {
        const ReplicaId id{role, i};
        if (!observed_.pods.contains(id) || restarts_.counted.contains(id)) waiting.insert(id);
      }
    }
    return waiting;
  }

  void LeaveOne(const ReplicaId& id) {
    if (!observed_.nodes || observed_.nodes->usable.empty()) return;
    const auto same = [&](const FailedNode& known) { return AvoidsTogether(job_, known, Name(id)); };
    const auto avoided = [&](const std::string& node) {
      return std::ranges::any_of(nodes_, [&](const FailedNode& known) { return known.node == node && same(known); });
    };
    while (std::ranges::all_of(observed_.nodes->usable, avoided)) {
      const auto& usable = observed_.nodes->usable;
      nodes_.erase(
          std::ranges::find_if(nodes_, [&](const FailedNode& known) { return same(known) && std::ranges::count(usable, known.node) > 0; }));
    }
  }

  const TrainingJob& job_;
  const Observed& observed_;
  const Restarts& restarts_;
  std::vector<FailedNode> nodes_;
};

}  // namespace

bool EndedByItsNode(const Pod& pod) {
  static constexpr std::array<std::string_view, 7> kReasons = {
      "Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "UnexpectedAdmissionError", "TopologyAffinityError"};
  static constexpr std::array<std::string_view, 3> kDisruptions = {"TerminationByKubelet", "DeletionByTaintManager", "DeletionByPodGC"};
  return std::ranges::count(kReasons, pod.reason) > 0 || pod.reason.starts_with("OutOf") || !pod.unhealthy_device.empty() ||
         std::ranges::any_of(kDisruptions, [&](std::string_view why) { return pod.disruption.starts_with(why); });
}

std::vector<FailedNode> FailedNodesNow(const Situation& situation, const Restarts& restarts) {
  if (!situation.job.spec.run_policy.avoid_failed_nodes) return {};
  return Memory(situation, restarts).Run();
}

Plan TellOfFailedNodes(const Situation& situation, const std::vector<FailedNode>& now) {
  const std::vector<FailedNode>& before = situation.job.status.failed_nodes;
  Plan plan;
  for (const FailedNode& failed : now) {
    if (std::ranges::count(before, failed) > 0) continue;
    const bool all = IsOfGroup(situation.job, failed.replica);
    plan.AddEvent(true, "NodeAvoided",
                  fmt::format("{} failed on node {}: {} there", failed.replica, failed.node,
                              all ? "no replica starts again" : "it does not start again"));
    if (plan.events.size() == kMostEvents) break;
  }
  return plan;
}

}  // namespace trainyard::control
