#include "operator/plan/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

using ::testing::HasSubstr;

Refusal Refused(int code, const std::string& words, ChildKind kind = ChildKind::kPod) {
  const std::optional<ReplicaId> replica = kind == ChildKind::kPod ? std::optional<ReplicaId>({Role::kWorker, 1}) : std::nullopt;
  return {.child = {kind, kind == ChildKind::kSecret ? "mnist-ssh" : "mnist-worker-1", "", "", replica}, .code = code, .words = words};
}

std::string Said(const Refusal& refusal, const MakeJob& job = MakeJob()) { return DescribeRefusal(job.Build(), refusal); }

TEST(Refusal, TheSentenceHasTheServersWordsAndTheNextStep) {
  struct Case {
    Refusal refusal;
    const char* step;
  };
  const Case cases[] = {
      {Refused(403, "pods \"mnist-worker-1\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"),
       "raise the quota of namespace default (kubectl describe quota -n default), or use fewer or smaller replicas"},
      {Refused(403, "pods \"mnist-worker-1\" is forbidden: failed quota: cpu: must specify limits.cpu for: trainer"),
       "give every container of spec.worker.template the resources that the quota of namespace default counts"},
      {Refused(403, "pods \"mnist-worker-1\" is forbidden: violates PodSecurity \"restricted:latest\": privileged"),
       "change the securityContext in spec.worker.template as the API server says, or the label pod-security.kubernetes.io/enforce"},
      {Refused(403, "pods \"mnist-worker-1\" is forbidden: error looking up service account default/nobody: not found"),
       "create that ServiceAccount in namespace default, or name another in spec.worker.template.spec.serviceAccountName"},
      {Refused(403, "secrets is forbidden: User \"op\" cannot create resource \"secrets\" in API group \"\"", ChildKind::kSecret),
       "install the operator's chart with --set secrets.enabled=true"},
      {Refused(400, "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.containers[0].comand\""),
       "correct the fields in spec.worker.template that the API server names"},
      {Refused(403, "pods \"mnist-worker-1\" is forbidden: pod rejected: RuntimeClass \"nvidia\" not found"),
       "name one that kubectl get runtimeclass lists in spec.worker.template.spec.runtimeClassName, or none"},
      {Refused(422,
               "Pod \"mnist-worker-1\" is invalid: spec.containers[0].resources.limits: Required value: Limit must be set for non "
               "overcommitable resources"),
       "name the device in the limits of spec.<role>.resources or of spec.worker.template: a request alone will not do"},
      {Refused(422, "Pod \"mnist-worker-1\" is invalid: spec.containers[0].image: Required value"), "correct spec.worker.template"},
      {Refused(500, "Internal error occurred: failed calling webhook \"deny.example.com\": connection refused"), "admission webhook"},
  };
  for (const Case& one : cases) {
    EXPECT_THAT(Said(one.refusal), HasSubstr(" cannot be created, the API server says: " + one.refusal.words + "; "));
    EXPECT_THAT(Said(one.refusal), HasSubstr(one.step));
  }
}

TEST(Refusal, WhereTheClusterHasNoPodGroupsItIsSaidWhatBringsThem) {
  const Refusal missing = Refused(404, "404 page not found\n", ChildKind::kPodGroup);
  const auto said = [&](const char* gang) { return Said(missing, MakeJob().Policy("scheduling", {{"gang", gang}})); };
  EXPECT_THAT(said("Volcano"),
              HasSubstr("the API server says: 404 page not found; the cluster has no such PodGroups: install Volcano, or "));
  EXPECT_THAT(said("Coscheduling"), HasSubstr(": install scheduler-plugins, or create the job without runPolicy.scheduling.gang"));
  EXPECT_THAT(said("Native"), HasSubstr("feature gate GenericWorkload and the API scheduling.k8s.io/v1beta1; Kubernetes 1.36 needs "));
  EXPECT_THAT(
      Said(missing, MakeJob().Policy("scheduling", {{"gang", "Native"}}).NativeAlpha()),
      HasSubstr(
          "and the API scheduling.k8s.io/v1alpha2 of Kubernetes 1.36; newer ones need the operator's flag --native-pod-groups=v1beta1"));
}

TEST(Refusal, TheFieldOfTheJobIsNamedThatTheServersWordsAreAbout) {
  const Refusal beyond =
      Refused(422,
              "Pod \"mnist-worker-1\" is invalid: spec.containers[0].resources.requests: Invalid value: \"200m\": must be "
              "less than or equal to cpu limit of 100m");
  EXPECT_THAT(Said(beyond), HasSubstr("; correct spec.worker.template"));
  EXPECT_THAT(Said(beyond, MakeJob().Set("/spec/worker/resources", {{"requests", {{"cpu", "200m"}}}})),
              HasSubstr("; correct spec.worker.resources; a limit may come from a LimitRange (kubectl describe limitrange -n default)"));
  const Refusal key =
      Refused(422, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value");
  EXPECT_THAT(Said(key, MakeJob().Policy("scheduling", {{"topologyKey", "bad key"}})),
              HasSubstr("; correct spec.runPolicy.scheduling.topologyKey"));
}

TEST(Refusal, AMissingRightToPodGroupsNamesTheChartsValueOfTheGang) {
  const Refusal refusal = Refused(403, "cannot create resource \"podgroups\"", ChildKind::kPodGroup);
  EXPECT_THAT(Said(refusal, MakeJob().Policy("scheduling", {{"gang", "Volcano"}})), HasSubstr("--set gang.volcano=true"));
  EXPECT_THAT(Said(refusal, MakeJob().Policy("scheduling", {{"gang", "Coscheduling"}})), HasSubstr("--set gang.coscheduling=true"));
  EXPECT_THAT(Said(refusal, MakeJob().Policy("scheduling", {{"gang", "Native"}})), HasSubstr("gang Native needs PodGroups"));
}

TEST(Refusal, ManyChildrenAreOneCount) {
  Refusal refusal = Refused(403, "exceeded quota");
  refusal.count = 4094;
  EXPECT_THAT(Said(refusal), HasSubstr("4094 Pods cannot be created"));
}

TEST(Refusal, WordsWithoutEndAreCutAndTheNextStepStays) {
  const std::string said = Said(Refused(403, "exceeded quota: " + std::string(100'000, 'x')));
  EXPECT_LE(said.size(), 1024U);
  EXPECT_THAT(said, HasSubstr("raise the quota"));
}

TEST(Refusal, OnlyMalformedObjectsBlameTheSpec) {
  for (const int code : {400, 413, 422}) EXPECT_TRUE(BlamesTheSpec(Refused(code, "")));
  for (const int code : {403, 404, 500}) EXPECT_FALSE(BlamesTheSpec(Refused(code, "")));
}

}  // namespace
}  // namespace trainyard::control
