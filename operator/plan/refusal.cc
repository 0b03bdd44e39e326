#include "operator/plan/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/ascii.h"
#include "operator/api/text.h"
#include "operator/api/words.h"
#include "operator/children/child_kinds.h"

namespace trainyard::control {
namespace {

constexpr size_t kMaxWords = 640;  // leaves room for the rest in 1 KiB

bool Says(const Refusal& refusal, std::string_view words) { return refusal.words.find(words) != std::string::npos; }

// The part of the spec that the child is made from.
std::string SpecPath(const Refusal& refusal) {
  if (refusal.child.replica) return fmt::format("spec.{}.template", Name(refusal.child.replica->role));
  return refusal.child.kind == ChildKind::kDeployment ? "spec.serve" : "the job's spec";
}

// The field of the job that the API server's words about a child are about, and where its value may
// come from.
std::string BlamedField(const TrainingJob& job, const Refusal& refusal) {
  if (Says(refusal, "topologyKey") && !job.spec.run_policy.scheduling.topology_key.empty()) return "spec.runPolicy.scheduling.topologyKey";
  const ReplicaSpec* const replica = refusal.child.replica ? job.spec.Find(refusal.child.replica->role) : nullptr;
  const bool resources = Says(refusal, ".resources") || Says(refusal, "quantities must match");
  if (replica == nullptr || !resources || replica->resources.empty()) return SpecPath(refusal);
  const std::string field = fmt::format("spec.{}.resources", Name(refusal.child.replica->role));
  if (!Says(refusal, "limit")) return field;
  return fmt::format("{}; a limit may come from a LimitRange (kubectl describe limitrange -n {})", field, job.meta.name_space);
}

// The operator itself lacks a right.
std::string MissingRight(const TrainingJob& job, ChildKind kind) {
  if (kind == ChildKind::kSecret && job.spec.framework != Framework::kMpi) {
    return "the job keeps its key and certificates in a Secret: install the operator's chart with --set secrets.enabled=true";
  }
  if (kind == ChildKind::kSecret) return "MPI jobs need ssh keys in a Secret: install the operator's chart with --set mpi.enabled=true";
  if (kind == ChildKind::kPodGroup) {
    const std::string_view gang = words::kGangs[static_cast<size_t>(job.spec.run_policy.scheduling.gang)];
    std::string value(gang);
    absl::AsciiStrToLower(&value);
    return fmt::format("runPolicy.scheduling.gang {} needs PodGroups: install the operator's chart with --set gang.{}=true", gang, value);
  }
  return "the operator lacks a right that its chart gives: install the chart again, with rbac.create=true";
}

std::string_view BringPodGroups(const TrainingJob& job) {
  switch (job.spec.run_policy.scheduling.gang) {
    case Gang::kVolcano:
      return "install Volcano";
    case Gang::kCoscheduling:
      return "install scheduler-plugins";
    default:
      return job.spec.run_policy.scheduling.native == NativeVersion::kV1Alpha2
                 ? "switch on the feature gates GenericWorkload and GangScheduling and the API scheduling.k8s.io/v1alpha2 of Kubernetes "
                   "1.36; "
                   "newer ones need the operator's flag --native-pod-groups=v1beta1"
                 : "switch on the feature gate GenericWorkload and the API scheduling.k8s.io/v1beta1; Kubernetes 1.36 needs the operator's "
                   "flag --native-pod-groups=v1alpha2";
  }
}

struct KnownAnswer {
  std::string_view words;
  std::string_view next_step;  // {0}: the namespace, {1}: the part of the spec
};

// The first that fits.
constexpr std::array kKnownAnswers = {
    KnownAnswer{"must specify", "give every container of {1} the resources that the quota of namespace {0} counts (spec.<role>.resources)"},
    KnownAnswer{"exceeded quota", "raise the quota of namespace {0} (kubectl describe quota -n {0}), or use fewer or smaller replicas"},
    KnownAnswer{
        "PodSecurity",
        "change the securityContext in {1} as the API server says, or the label pod-security.kubernetes.io/enforce of namespace {0}"},
    KnownAnswer{"usage per", "change the replicas' resources, or the LimitRange of namespace {0} (kubectl describe limitrange -n {0})"},
    KnownAnswer{"error looking up service account",
                "create that ServiceAccount in namespace {0}, or name another in {1}.spec.serviceAccountName"},
    KnownAnswer{"no PriorityClass", "create that PriorityClass, or name another in spec.runPolicy.scheduling.priorityClass"},
    KnownAnswer{
        "RuntimeClass",
        "name one that kubectl get runtimeclass lists in {1}.spec.runtimeClassName, or none where the nodes' default runtime will do"},
    KnownAnswer{"non overcommitable resources",
                "name the device in the limits of spec.<role>.resources or of {1}: a request alone will not do"},
    KnownAnswer{"ValidatingAdmissionPolicy",
                "change the job so that the policy allows it, or ask the cluster's administrator to change the policy"},
    KnownAnswer{"strict decoding error", "correct the fields in {1} that the API server names"},
    KnownAnswer{"webhook", "ask the cluster's administrator about that admission webhook"},
};

std::string NextStep(const TrainingJob& job, const Refusal& refusal) {
  const ChildKind kind = refusal.child.kind;
  if (refusal.code == 403 && Says(refusal, "cannot create resource")) return MissingRight(job, kind);
  if (refusal.code == 404 && kind == ChildKind::kPodGroup) {
    return fmt::format("the cluster has no such PodGroups: {}, or create the job without runPolicy.scheduling.gang", BringPodGroups(job));
  }
  const auto known =
      std::find_if(kKnownAnswers.begin(), kKnownAnswers.end(), [&](const KnownAnswer& answer) { return Says(refusal, answer.words); });
  if (known != kKnownAnswers.end()) return fmt::format(fmt::runtime(known->next_step), job.meta.name_space, SpecPath(refusal));
  if (BlamesTheSpec(refusal)) return fmt::format("correct {}", BlamedField(job, refusal));
  return "change the job, or ask the cluster's administrator";
}

}  // namespace

bool BlamesTheSpec(const Refusal& refusal) { return refusal.code == 400 || refusal.code == 413 || refusal.code == 422; }

std::string DescribeRefusal(const TrainingJob& job, const Refusal& refusal) {
  const std::string what = refusal.count == 1 ? fmt::format("{} {}", TraitsOf(refusal.child.kind).name, refusal.child.name)
                                              : fmt::format("{} {}s", refusal.count, TraitsOf(refusal.child.kind).name);
  return Head(fmt::format("{} cannot be {}, the API server says: {}; {}", what, refusal.edits ? "changed" : "created",
                          Head(std::string(absl::StripAsciiWhitespace(refusal.words)), kMaxWords), NextStep(job, refusal)),
              kMaxMessage);
}

}  // namespace trainyard::control
