// What there is of a job: its children as the caches hold them, sorted into ours, adoptable, to be released and foreign.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/trainingjob/labels.h"

namespace trainyard::control {

enum class ChildKind : uint8_t { kPod, kService, kConfigMap, kSecret, kPodGroup };
std::string_view KindName(ChildKind kind);  // "Pod"

// No cache holds these: a cluster need not have PodGroups, and Secrets are not the operator's to list.
constexpr bool IsUnwatched(ChildKind kind) { return kind == ChildKind::kSecret || kind == ChildKind::kPodGroup; }

// What the API server said last of a job's child of such a kind.
struct Unwatched {
  enum class Holder : uint8_t {
    kNobody,  // there is none, or it is about to go
    kJob,
    kOther,  // the name is another's, or the operator may not touch it: it is left as it is
  };
  Holder holder = Holder::kNobody;
  int min_member = 0;  // of the job's PodGroup
};

struct ChildRef {
  ChildKind kind = ChildKind::kPod;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::optional<ReplicaId> replica;
  friend bool operator==(const ChildRef&, const ChildRef&) = default;
};

// What the listers returned: everything that the job controls, and what else has a name that a child of it needs.
struct Children {
  std::vector<std::shared_ptr<const Pod>> pods;
  std::vector<std::shared_ptr<const Service>> services;
  std::vector<std::shared_ptr<const ConfigMap>> configs;
  // Names that a create found taken by an object without our labels (so that no cache has it) → who controls it.
  std::map<std::pair<ChildKind, std::string>, std::string> taken;
  std::map<ChildKind, Unwatched> unwatched;  // without an entry the API server has not been asked
  // Nodes of the job's Terminating pods that are gone or not Ready.
  std::set<std::string> down_nodes;
  // The chief's latest answer.
  std::optional<Progress> progress;
};

struct Observed {
  std::map<ReplicaId, std::shared_ptr<const Pod>> pods;            // ours, also those that the spec no longer wants
  std::map<std::string, ChildRef> services;                        // ours, by name
  std::shared_ptr<const ConfigMap> config;                         // ours
  std::vector<ChildRef> adopt;                                     // orphans with our labels, our uid and a right name
  std::vector<ChildRef> release;                                   // ours by owner reference only: labels or name are not those of a child
  std::map<std::pair<ChildKind, std::string>, std::string> taken;  // names of ours that others have → by whom
  // Names that children of an earlier job of this name still have: the garbage collector is about to delete them.
  std::set<std::string> leftovers;
  std::map<ChildKind, Unwatched> unwatched;  // as in Children
  std::set<std::string> down_nodes;
  std::optional<Progress> progress;
};

// Whether the two pods read the same to Observe and MakePlan: a change in nothing else is no reason to look at the job.
bool SameForPlan(const Pod& a, const Pod& b);

Observed Observe(const TrainingJob& job, Children children);

}  // namespace trainyard::control
