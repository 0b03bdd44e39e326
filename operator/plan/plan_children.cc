#include "operator/plan/plan_children.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/children/job_secrets.h"
#include "operator/children/pod_group_builder.h"
#include "operator/plan/plan_deletions.h"
#include "operator/plan/queue_wait.h"
#include "operator/plan/restart_together.h"

namespace trainyard::control {
namespace {

constexpr absl::Duration kAskAgain = absl::Seconds(1);  // no watch tells that a Secret or PodGroup is gone

class ChildrenPlanner {
 public:
  ChildrenPlanner(const Situation& situation, const std::set<ReplicaId>& completed, const Restarts& restarts)
      : situation_(situation), job_(situation.job), observed_(situation.observed), completed_(completed), restarts_(restarts) {}

  Plan Run(int64_t hosts_epoch) {
    PlanConfig(hosts_epoch);
    PlanPods();
    PlanServices();
    if (observed_.refusal && observed_.refusal->wait > absl::ZeroDuration()) Withhold(situation_.now + observed_.refusal->wait);
    return std::move(plan_);
  }

 private:
  void Withhold(absl::Time until) {
    if (plan_.creations.empty() && plan_.ensure.empty()) return;
    plan_.withheld = true;
    plan_.creations.clear();
    plan_.ensure.clear();
    plan_.RequeueAt(until);
  }

  void PlanConfig(int64_t hosts_epoch) {
    const std::string name = ConfigMapName(job_);
    if (observed_.config == nullptr) {
      Create(ChildKind::kConfigMap, name, std::nullopt);
    } else if (!situation_.hosts.AreHeld(hosts_epoch)) {
      plan_.update_config = true;
    }
  }

  void PlanServices() {
    std::set<std::string> wanted;
    if (job_.spec.network.services == ServicesMode::kHeadless) {
      wanted.insert(HeadlessServiceName(job_));
      if (!observed_.services.contains(HeadlessServiceName(job_))) Create(ChildKind::kService, HeadlessServiceName(job_), std::nullopt);
    } else {
      ForEachReplica([&](const ReplicaId& id) {
        const std::string name = ChildName(job_, id);
        wanted.insert(name);
        if (!observed_.services.contains(name)) Create(ChildKind::kService, name, id);
      });
    }
    for (const auto& [name, service] : observed_.services) {
      if (!wanted.contains(name) && !service.terminating) plan_.deletions.push_back({service});
    }
  }

  void PlanPods() {
    for (const auto& [id, pod] : observed_.pods) {
      const bool wanted = id.index < job_.spec.Replicas(id.role);
      if (!wanted || restarts_.counted.contains(id)) plan_.Add(DeletePod(situation_, id, *pod));
    }
    std::vector<ReplicaId> missing;
    const bool first_ready = FirstReady();
    const bool old_pods_remain = OldPodsRemain(job_, observed_, restarts_);
    ForEachReplica([&](const ReplicaId& id) {
      if (observed_.pods.contains(id) || completed_.contains(id)) return;
      if (old_pods_remain && StartsWithAll(job_, id)) return;
      if (!first_ready && WaitsForFirst(id)) return;
      if (const auto due = restarts_.not_before.find(id); due != restarts_.not_before.end() && due->second > situation_.now)
        return plan_.RequeueAt(due->second);
      missing.push_back(id);
    });
    PlanUnwatched(!missing.empty());
    if (!missing.empty() && WaitsForPodGroup(situation_)) return AskAgainIn(PodGroupLeaves(situation_) ? kAskAgain : absl::ZeroDuration());
    for (const ReplicaId& id : missing) Create(ChildKind::kPod, ChildName(job_, id), id);
  }

  void PlanUnwatched(bool pods_missing) {
    if (NeedsSecret(job_)) Ensure(ChildKind::kSecret, SecretName(job_), pods_missing);
    if (job_.spec.run_policy.scheduling.gang != Gang::kNone) Ensure(ChildKind::kPodGroup, job_.meta.name, pods_missing);
  }

  // One that was deleted by hand since it was seen is recreated with the next pod.
  void Ensure(ChildKind kind, const std::string& name, bool pods_missing) {
    const auto known = observed_.unwatched.find(kind);
    const bool seen = known != observed_.unwatched.end();
    const Scheduling& scheduling = job_.spec.run_policy.scheduling;
    const bool follows_scale = kind == ChildKind::kPodGroup && scheduling.GroupFollowsScale();
    const bool outdated =
        seen && follows_scale && known->second.holder == Unwatched::Holder::kJob && known->second.min_member != MinMember(job_);
    const bool first = kind == ChildKind::kPodGroup && WaitsForPodGroup(situation_);
    if (pods_missing && !outdated && !first) return Create(kind, name, std::nullopt);
    const bool leaves = seen && known->second.holder == Unwatched::Holder::kLeaving;
    // Kubernetes keeps what pods name. But pods may have been made in the moment in which it went.
    const bool stays = kind == ChildKind::kPodGroup && scheduling.gang == Gang::kNative && !first && AllPodsHaveNodes();
    const bool absent = !seen || known->second.holder == Unwatched::Holder::kNobody || (leaves && !stays);
    if (outdated || absent) plan_.ensure.push_back({kind, name, "", "", std::nullopt});
    if (absent) AskAgainIn(kAskAgain);  // the answer may be an earlier job's, which leaves
  }

  bool AllPodsHaveNodes() const {
    return std::ranges::all_of(observed_.pods, [](const auto& each) { return !each.second->node.empty(); });
  }

  void AskAgainIn(absl::Duration wait) {
    const bool refused = observed_.refusal && observed_.refusal->wait > absl::ZeroDuration();  // Withhold() says when
    if (!refused) plan_.RequeueAt(situation_.now + wait);
  }

  // The launcher of MPI, which is a chief, goes to its workers by ssh.
  bool AreLaunched(Role role) const {
    return role == Role::kWorker && job_.spec.framework == Framework::kMpi && job_.spec.Replicas(Role::kChief) > 0;
  }

  bool StartsFirst(Role role) const {
    const bool schedules = role == Role::kChief && job_.spec.framework == Framework::kMxNet;  // servers wait for it
    return role == Role::kPs || schedules || AreLaunched(role);
  }

  bool WaitsForFirst(const ReplicaId& id) const {
    if (job_.spec.run_policy.start_policy == StartPolicy::kAny || StartsFirst(id.role)) return false;
    const Scheduling& scheduling = job_.spec.run_policy.scheduling;
    if (!scheduling.kueue_queue.empty()) return false;  // Kueue looks at no group before all its pods are there
    if (scheduling.gang == Gang::kNone) return true;
    // Its scheduler starts no server before minMember pods are there.
    int first = 0;
    for (const auto& [role, replica] : job_.spec.replicas) first += StartsFirst(role) ? replica.replicas : 0;
    return MinMember(job_) <= first;
  }

  bool FirstReady() const { return AllReady(Role::kPs) && (!AreLaunched(Role::kWorker) || AllReady(Role::kWorker)); }

  bool AllReady(Role role) const {
    for (int i = 0; i < job_.spec.Replicas(role); ++i) {
      const ReplicaId id{role, i};
      const auto state = restarts_.states.find(id);
      const bool ready = state != restarts_.states.end() && state->second == PodState::kReady && !restarts_.counted.contains(id);
      if (!ready && !completed_.contains(id)) return false;
    }
    return true;
  }

  void Create(ChildKind kind, const std::string& name, const std::optional<ReplicaId>& id) {
    if (observed_.taken.contains({kind, name}) || observed_.leftovers.contains(name)) return;
    const auto adoptable = [&](const ChildRef& child) { return child.kind == kind && child.name == name; };
    if (std::any_of(observed_.adopt.begin(), observed_.adopt.end(), adoptable)) return;
    plan_.creations.push_back({kind, name, "", "", id});
  }

  template <typename Function>
  void ForEachReplica(const Function& function) const {
    for (const Role role : {Role::kPs, Role::kChief, Role::kWorker, Role::kEvaluator}) {
      for (int i = 0; i < job_.spec.Replicas(role); ++i) function(ReplicaId{role, i});
    }
  }

  const Situation& situation_;
  const TrainingJob& job_;
  const Observed& observed_;
  const std::set<ReplicaId>& completed_;
  const Restarts& restarts_;
  Plan plan_;
};

}  // namespace

Plan PlanChildren(const Situation& situation, const std::set<ReplicaId>& completed, const Restarts& restarts, int64_t hosts_epoch) {
  return ChildrenPlanner(situation, completed, restarts).Run(hosts_epoch);
}

}  // namespace trainyard::control
