#include "operator/trainingjob/creation_round.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "operator/children/child_kinds.h"
#include "operator/kube/errors.h"

namespace trainyard::control {
namespace {

bool IsWebhooks(std::string_view words) { return words.find("webhook") != std::string_view::npos; }

bool IsServer(const ChildRef& child) { return child.replica && child.replica->role == Role::kPs; }

// Whether `child` is asked for only after the answer to `other`. Pods wait for the Secret and the
// PodGroup, which are refused more often than a ConfigMap. Other pods wait for the servers' pods:
// the room that there is belongs to the servers.
bool GoesBefore(const ChildRef& other, const ChildRef& child) {
  if (child.kind != ChildKind::kPod) return false;
  return !TraitsOf(other.kind).watched || (other.kind == ChildKind::kPod && IsServer(other) && !IsServer(child));
}

}  // namespace

bool IsRefusal(const absl::Status& status) {
  static constexpr std::array kCodes = {400, 403, 404, 413, 422};
  const int code = HttpCode(status);
  if (std::find(kCodes.begin(), kCodes.end(), code) != kCodes.end()) return true;
  return code >= 500 && IsWebhooks(ServerWords(status));
}

void CreationRound::Run(const std::vector<ChildRef>& children, const std::function<absl::Status(const ChildRef&)>& create) {
  for (const ChildRef& child : children) ++missing_[child.kind];
  size_t next = 0;
  bool going = true;
  while (next < children.size() && going) {
    std::vector<ChildRef> group;
    for (; next < children.size() && group.size() < group_; ++next) {
      const ChildRef& child = children[next];
      if (std::any_of(group.begin(), group.end(), [&](const ChildRef& other) { return GoesBefore(other, child); })) break;
      if (!IsPointless(child)) group.push_back(child);
    }
    going = RunGroup(group, create);
    group_ *= 2;
  }
}

std::optional<Refusal> CreationRound::refusal() const {
  if (refusals_.empty()) return std::nullopt;
  Refusal refusal = refusals_.front();
  refusal.count = missing_.at(refusal.child.kind);
  return refusal;
}

bool CreationRound::IsPointless(const ChildRef& child) const {
  return std::any_of(refusals_.begin(), refusals_.end(), [&](const Refusal& refusal) {
    return refusal.child.kind == child.kind || (child.kind == ChildKind::kPod && TraitsOf(refusal.child.kind).pods_need_it);
  });
}

bool CreationRound::RunGroup(const std::vector<ChildRef>& group, const std::function<absl::Status(const ChildRef&)>& create) {
  std::vector<absl::Status> made(group.size());
  fan_out_.ForEach(group.size(), [&](size_t i) { made[i] = create(group[i]); });
  size_t errors = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    if (made[i].ok()) {
      --missing_[group[i].kind];
    } else if (!IsRefusal(made[i])) {
      ++errors;
      if (error_.ok()) error_ = made[i];
    } else if (!IsPointless(group[i])) {
      refusals_.push_back({.child = group[i], .code = HttpCode(made[i]), .words = ServerWords(made[i])});
    }
  }
  return group.empty() || errors < group.size();
}

}  // namespace trainyard::control
