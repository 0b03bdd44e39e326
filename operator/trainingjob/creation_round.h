// CreationRound: one attempt to create what a job lacks, which ends early where the API server does
// not want it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "operator/controller/fan_out.h"
#include "operator/plan/refusal.h"

namespace trainyard::control {

// Whether the server refused the object itself, so that asking again at once cannot help. Reasons
// are quota, Pod Security, a missing right, a field that the server does not know, or a webhook.
// Anything else is an error of the moment.
bool IsRefusal(const absl::Status& status);

// For the time of one reconcile, on its thread. Groups of children are created at once, each group
// twice as big as the group before it. So a job of 4,096 replicas in a full namespace costs a
// handful of refused requests and no more. The ReplicaSet controller's slow start does the same,
// and begins with 1. After a refusal the children of that kind are not tried any more, nor pods
// after one of something that they mount. A group of which nothing is made because of other errors
// is the last.
class CreationRound {
 public:
  // `careful`: the last round was refused: begin with one child, not with eight.
  CreationRound(FanOut& fan_out, bool careful) : fan_out_(fan_out), group_(careful ? 1 : 8) {}

  // `children` in the order of their importance; `create` is called from several threads.
  void Run(const std::vector<ChildRef>& children, const std::function<absl::Status(const ChildRef&)>& create);

  // The first by importance, with the number of children of its kind that are missing now.
  std::optional<Refusal> refusal() const;
  // The first error that is not a refusal.
  const absl::Status& error() const { return error_; }

 private:
  bool IsPointless(const ChildRef& child) const;
  // False when no child of the group was created, because of errors that are not refusals.
  bool RunGroup(const std::vector<ChildRef>& group, const std::function<absl::Status(const ChildRef&)>& create);

  FanOut& fan_out_;
  size_t group_;
  std::map<ChildKind, int> missing_;
  std::vector<Refusal> refusals_;  // at most one for each kind
  absl::Status error_;
};

}  // namespace trainyard::control
