// A job's children as the caches hold them, sorted into ours, adoptable, to be released and
// foreign.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/children/child_ref.h"
#include "operator/children/labels.h"
#include "operator/plan/host_lists.h"
#include "operator/plan/refusal.h"

namespace trainyard::control {

// The API server's last answer about a job's child of such a kind.
struct Unwatched {
  enum class Holder : uint8_t {
    kNobody,   // the child does not exist
    kLeaving,  // it is about to go: it is being deleted, or an earlier job's
    kJob,
    kOther,  // the name is another's, or the operator may not touch it: it is left as it is
  };
  Holder holder = Holder::kNobody;
  int min_member = 0;  // of the PodGroup
};

// Why a node's kubelet does not end pods.
enum class NodeDown : uint8_t {
  kGone,          // the cluster has no such node any more
  kOutOfService,  // tainted so by an administrator: nothing runs on it
  kNotReady,      // it may be cut off only, and its processes go on
};
// Nothing where the node is well; `node` null: there is none.
std::optional<NodeDown> DownState(const Node* node);

// The Deployment of spec.serve, as the operator wrote it last.
struct AppliedServing {
  std::string uid;
  int64_t generation = 0;  // that the write made: a later one is somebody's edit
  std::string hash;        // ServeHash of what was written
  absl::Duration age;      // since the write
};

// What serves a job's checkpoints, beside its Service, which is among the services.
struct ServingChildren {
  std::vector<std::shared_ptr<const Deployment>> deployments;
  std::optional<AppliedServing> applied;  // without a value this process has written none
  std::optional<Refusal> refusal;         // of these children alone
  // The served version by the latest answer, and why the last question had none (empty: it had, or
  // none was asked).
  std::optional<int64_t> version;
  std::string problem;
};

// What a job that avoids failed nodes needs to know of the cluster's.
struct NodesSeen {
  std::set<std::string> gone;       // of those in its status
  std::vector<std::string> usable;  // Ready and not cordoned; not all of many
};

// The listers' answers: the job's children, and other objects with a name that a child needs.
struct Children {
  std::vector<std::shared_ptr<const Pod>> pods;
  std::vector<std::shared_ptr<const Service>> services;
  std::vector<std::shared_ptr<const ConfigMap>> configs;
  // Names that a create found taken by an object without our labels (so that no cache has it) →
  // holder.
  std::map<std::pair<ChildKind, std::string>, std::string> taken;
  std::map<ChildKind, Unwatched> unwatched;    // without an entry the API server has not been asked
  std::optional<Refusal> refusal;              // as in Observed
  std::map<std::string, NodeDown> down_nodes;  // of the job's pods that are Terminating or not ready
  std::optional<NodesSeen> nodes;              // absent where the job does not ask, or the operator may not see nodes
  // The chief's latest answer, and why it gave none when it was asked last (empty: it did).
  std::optional<Progress> progress;
  std::string chief_problem;
  ServingChildren serving;
  std::optional<HostListsSeen> hosts_seen;  // by the last look
};

// What is there of spec.serve. Its strays are its own, since nothing of it holds up the training.
struct ObservedServing {
  std::shared_ptr<const Deployment> deployment;  // ours
  std::optional<ChildRef> service;               // ours
  std::vector<ChildRef> adopt;
  std::vector<ChildRef> relabel;
  std::vector<ChildRef> release;
  std::map<std::pair<ChildKind, std::string>, std::string> taken;
  std::set<std::string> leftovers;
  std::optional<AppliedServing> applied;
  std::optional<Refusal> refusal;
  std::optional<int64_t> version;
  std::string problem;
};

struct Observed {
  std::map<ReplicaId, std::shared_ptr<const Pod>> pods;            // ours, also those that the spec no longer wants
  std::map<std::string, ChildRef> services;                        // ours, by name
  std::shared_ptr<const ConfigMap> config;                         // ours
  std::vector<ChildRef> adopt;                                     // orphans with our labels, our uid and a right name
  std::vector<ChildRef> relabel;                                   // ours, but some of our labels were taken away
  std::vector<ChildRef> release;                                   // ours by owner reference only: labels or name are not those of a child
  std::map<std::pair<ChildKind, std::string>, std::string> taken;  // names of ours that others have → by whom
  // Names that children of an earlier job of this name still have: the garbage collector is about
  // to delete them.
  std::set<std::string> leftovers;
  std::map<ChildKind, Unwatched> unwatched;  // as in Children
  std::optional<Refusal> refusal;            // the API server did not want to create children the last time
  std::map<std::string, NodeDown> down_nodes;
  std::optional<NodesSeen> nodes;
  std::optional<Progress> progress;
  std::string chief_problem;
  ObservedServing serving;
  std::optional<HostListsSeen> hosts_seen;  // as in Children
};

// Whether the two read the same to Observe and MakePlan: a change in nothing else needs no
// reconcile.
bool SameForPlan(const Pod& a, const Pod& b);
bool SameForPlan(const Deployment& a, const Deployment& b);

Observed Observe(const TrainingJob& job, Children children);

}  // namespace trainyard::control
