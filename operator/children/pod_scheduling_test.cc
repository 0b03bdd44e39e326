#include "operator/children/pod_scheduling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "operator/children/gang_resources.h"
#include "operator/children/pod_builder.h"
#include "operator/children/pod_group_builder.h"
#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

json Requests(const char* cpu, const char* memory) { return {{"requests", {{"cpu", cpu}, {"memory", memory}}}}; }

MakeJob Gang(json scheduling) { return MakeJob().Replicas("ps", 1).Replicas("worker", 3).Policy("scheduling", std::move(scheduling)); }

TEST(PodGroup, AsksForTheSumOfThePodsThatStartAtOnce) {
  MakeJob job = Gang({{"gang", "Coscheduling"}});
  job.Set("/spec/ps/resources", Requests("500m", "1Gi")).Set("/spec/worker/resources", Requests("1", "2Gi"));
  EXPECT_EQ(BuildPodGroup(job.Build())["spec"].dump(), R"({"minMember":4,"minResources":{"cpu":"3500m","memory":"7Gi"}})");
  job.Policy("scheduling", {{"gang", "Coscheduling"}, {"minAvailable", 2}});
  EXPECT_EQ(BuildPodGroup(job.Build())["spec"].dump(), R"({"minMember":2,"minResources":{"cpu":"1500m","memory":"3Gi"}})");
}

TEST(PodGroup, OfTheDefaultSchedulerHasItsPolicy) {
  const json group = BuildPodGroup(Gang({{"gang", "Native"}}).Build());
  EXPECT_EQ(group["apiVersion"], "scheduling.k8s.io/v1beta1");
  EXPECT_EQ(BuildPodGroup(Gang({{"gang", "Native"}}).NativeAlpha().Build())["apiVersion"], "scheduling.k8s.io/v1alpha2");
  EXPECT_EQ(group["spec"].dump(), R"({"schedulingPolicy":{"gang":{"minCount":4}}})");
  EXPECT_EQ(MinMemberOf(Gang({{"gang", "Native"}}).Build(), group), 4);
}

TEST(PodGroup, OfTheDefaultSchedulerFollowsTheScaleSinceItsBeta) {
  EXPECT_EQ(ScaledPodGroupSpec(Gang({{"gang", "Native"}}).Build()).dump(), R"({"schedulingPolicy":{"gang":{"minCount":4}}})");
  EXPECT_EQ(ScaledPodGroupSpec(Gang({{"gang", "Native"}}).NativeAlpha().Build()).dump(), "{}");
}

TEST(GangResources, CountAPodAsTheSchedulerDoes) {
  const json pod_template = json::parse(R"({"spec": {
    "overhead": {"memory": "64Mi"},
    "initContainers": [
      {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}},
      {"name": "fetch", "resources": {"requests": {"cpu": "100m", "memory": "8Gi"}}}],
    "containers": [
      {"name": "trainer", "image": "x", "resources": {"limits": {"cpu": 2, "nvidia.com/gpu": "1"}, "requests": {"cpu": "1.5", "memory": "1Gi"}}},
      {"name": "log", "image": "x", "resources": {"requests": {"cpu": "250m", "memory": "many"}}}]}})");
  const TrainingJob job = MakeJob().Replicas("worker", 2).Template("worker", pod_template).Build();
  EXPECT_EQ(ToJson(RequestsOf(job, 2)).dump(), R"({"cpu":"4","memory":"16512Mi","nvidia.com/gpu":"2"})");
  EXPECT_EQ(Describe(RequestsOf(job, 1)), "2 CPU, 8256Mi memory and 1 nvidia.com/gpu");
  EXPECT_EQ(Describe(RequestsOf(job, 0)), "");
}

TEST(GangResources, AHostileTemplateCountsAsNothing) {
  const json pod_template = json::parse(R"({"spec": {"overhead": 7, "initContainers": [null, {"resources": []}],
    "containers": [{"image": "x", "resources": {"requests": {"cpu": {}, "memory": -1}}}, 7]}})");
  EXPECT_TRUE(RequestsOf(MakeJob().Replicas("worker", 4096).Template("worker", pod_template).Build(), 4096).empty());
}

TEST(Native, APodNamesItsGroupAndKeepsTheDefaultScheduler) {
  const json spec = BuildPod(Gang({{"gang", "Native"}}).Build(), {Role::kWorker, 0})["spec"];
  EXPECT_EQ(spec["schedulingGroup"].dump(), R"({"podGroupName":"mnist"})");
  EXPECT_FALSE(spec.contains("schedulerName"));
}

TEST(Kueue, APodIsOneOfItsJobsGroupWithItsRoleAsItsShape) {
  MakeJob job = Gang(json::object());
  job.Set("/metadata/labels", {{"kueue.x-k8s.io/queue-name", "research"}, {"kueue.x-k8s.io/priority-class", "low"}});
  job.Template("worker", {{"metadata", {{"annotations", {{"a", "b"}}}, {"labels", {{"kueue.x-k8s.io/queue-name", "stolen"}}}}}});
  const json meta = BuildPod(job.Build(), {Role::kWorker, 2})["metadata"];
  EXPECT_EQ(meta["labels"]["kueue.x-k8s.io/queue-name"], "research");
  EXPECT_EQ(meta["labels"]["kueue.x-k8s.io/priority-class"], "low");
  EXPECT_EQ(meta["labels"]["kueue.x-k8s.io/pod-group-name"], "mnist-job-uid");
  EXPECT_EQ(meta["annotations"]["a"], "b");
  EXPECT_EQ(meta["annotations"]["kueue.x-k8s.io/pod-group-total-count"], "4");
  EXPECT_EQ(meta["annotations"]["kueue.x-k8s.io/role-hash"], "worker");
  EXPECT_FALSE(BuildPod(Gang(json::object()).Build(), {Role::kPs, 0})["metadata"]["annotations"].contains("kueue.x-k8s.io/role-hash"));
}

TEST(Kueue, EachGroupOfAJobHasANameOfItsOwnThatIsALabelToo) {
  TrainingJob job = MakeJob().Build();
  job.meta.name = std::string(55, 'a');  // with the longest child name that is accepted
  job.meta.uid = "1a2b3c4d-0000-4000-8000-000000000000";
  std::set<std::string> names;
  for (const int64_t epoch : {0, 1, 2, 10, 9'999}) {
    job.status.group_epoch = epoch;
    const std::string name = KueueGroupName(job);
    EXPECT_LE(name.size(), 63U);
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_THAT(names, ::testing::Contains(job.meta.name + "-1a2b3-2"));
  EXPECT_THAT(names, ::testing::Contains(job.meta.name + "-1a2b3c4"));
}

TEST(Placement, CloseReplicasSeekEachOtherBesideTheTemplatesAffinity) {
  MakeJob job = Gang({{"topologyKey", "zone"}});
  job.Template("worker", json::parse(R"({"spec": {"affinity": {"nodeAffinity": {"own": 1}, "podAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]}}}})"));
  const json affinity = BuildPod(job.Build(), {Role::kWorker, 0})["spec"]["affinity"];
  EXPECT_EQ(affinity["nodeAffinity"]["own"], 1);
  EXPECT_EQ(affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].dump(),
            R"([{"topologyKey":"rack"},{"labelSelector":{"matchLabels":{"trainyard.dev/job-uid":"job-uid"}},"topologyKey":"zone"}])");
  EXPECT_FALSE(affinity.contains("podAntiAffinity"));
}

TEST(Placement, ExclusiveJobsKeepAwayFromEachOtherInAllNamespaces) {
  const json pod = BuildPod(Gang({{"topologyKey", "zone"}, {"placement", "Exclusive"}}).Build(), {Role::kPs, 0});
  const json& away = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
  EXPECT_EQ(away["namespaceSelector"], json::object());
  EXPECT_EQ(away["labelSelector"]["matchExpressions"].size(), 2U);
  EXPECT_EQ(pod["metadata"]["labels"]["trainyard.dev/exclusive"], "true");
}

}  // namespace
}  // namespace trainyard::control
