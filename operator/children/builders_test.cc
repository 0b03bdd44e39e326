// The injected parts of children, exact to the byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/children/config_builder.h"
#include "operator/children/framework_env.h"
#include "operator/children/pod_builder.h"
#include "operator/children/pod_group_builder.h"
#include "operator/children/service_builder.h"
#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

std::string Value(const EnvironmentList& env, const std::string& name) {
  for (const auto& [key, value] : env) {
    if (key == name) return value;
  }
  return "(absent)";
}

TEST(ConfigBuilder, HostListsAndTrainingAreExactToTheByte) {
  const TrainingJob job = MakeJob()
                              .Replicas("ps", 1)
                              .Replicas("worker", 2)
                              .Set("/spec/worker/resources/limits", {{"nvidia.com/gpu", "4"}})
                              .Set("/spec/training", {{"steps", 3}, {"model", {{"preset", "linear"}}}})
                              .Build();
  const json data = BuildConfigData(job, 3, "");
  EXPECT_EQ(
      data["cluster.json"],
      R"({"epoch":3,"ps":["mnist-ps-0.mnist.default.svc:5000"],"worker":["mnist-worker-0.mnist.default.svc:5000","mnist-worker-1.mnist.default.svc:5000"],"chief":"mnist-worker-0.mnist.default.svc:5000"})");
  EXPECT_EQ(data["ps_hosts"], "mnist-ps-0.mnist.default.svc:5000");
  EXPECT_EQ(data["worker_hosts"], "mnist-worker-0.mnist.default.svc:5000,mnist-worker-1.mnist.default.svc:5000");
  EXPECT_EQ(data["hostfile"], "mnist-worker-0.mnist.default.svc slots=4\nmnist-worker-1.mnist.default.svc slots=4\n");
  EXPECT_EQ(data["training.json"], R"({"model":{"preset":"linear"},"steps":3})");
  EXPECT_EQ(data.size(), 5U);
}

TEST(ConfigBuilder, AnMpiJobHasItsHostsInTheWordsOfOpenMpiAndOfHydra) {
  const json data = BuildConfigData(MakeJob()
                                        .Framework("MPI")
                                        .Replicas("chief", 1)
                                        .Replicas("worker", 2)
                                        .Set("/spec/worker/resources/limits", {{"nvidia.com/gpu", "4"}})
                                        .Build(),
                                    1, "");
  EXPECT_EQ(data["hostfile"], "mnist-worker-0.default.svc slots=4\nmnist-worker-1.default.svc slots=4\n");
  EXPECT_EQ(data["hostfile_hydra"], "mnist-worker-0.default.svc:4\nmnist-worker-1.default.svc:4\n");
}

TEST(ConfigBuilder, ListsOfZeroReplicasAreEmpty) {
  const json data = BuildConfigData(MakeJob().Replicas("chief", 1).Build(), 1, "");
  EXPECT_EQ(data["cluster.json"], R"({"epoch":1,"ps":[],"worker":[],"chief":"mnist-chief-0.mnist.default.svc:5000"})");
  EXPECT_EQ(data["ps_hosts"], "");
  EXPECT_EQ(data["worker_hosts"], "");
  EXPECT_EQ(data["hostfile"], "");
  EXPECT_EQ(data["training.json"], "{}");
}

TEST(ConfigBuilder, ListsAreInNumericOrder) {
  const json cluster = json::parse(BuildConfigData(MakeJob().Replicas("worker", 11).Build(), 1, "")["cluster.json"].get<std::string>());
  EXPECT_EQ(cluster["worker"][2], "mnist-worker-2.mnist.default.svc:5000");
  EXPECT_EQ(cluster["worker"][10], "mnist-worker-10.mnist.default.svc:5000");
}

TEST(ConfigBuilder, AddressesNameTheJobsServiceAndTheClusterDomain) {
  const TrainingJob job =
      MakeJob().Replicas("worker", 1).Set("/spec/network", {{"clusterDomain", "cluster.local"}, {"port", 6000}}).Build();
  EXPECT_EQ(BuildConfigData(job, 1, "")["worker_hosts"], "mnist-worker-0.mnist.default.svc.cluster.local:6000");
}

TEST(ConfigBuilder, TheHostsHashFollowsTheListsOnly) {
  const std::string two = HostsHash(MakeJob().Replicas("worker", 2).Build());
  EXPECT_EQ(two, HostsHash(MakeJob().Replicas("worker", 2).Policy("backoffLimit", 1).Build()));
  EXPECT_NE(two, HostsHash(MakeJob().Replicas("worker", 3).Build()));
}

TEST(ServiceBuilder, AReplicasServiceIsExactToTheByte) {
  EXPECT_EQ(
      BuildReplicaService(MakeJob().Replicas("worker", 1).Build(), {Role::kWorker, 0}).dump(),
      R"({"apiVersion":"v1","kind":"Service","metadata":{"labels":{"trainyard.dev/index":"0","trainyard.dev/job-name":"mnist",)"
      R"("trainyard.dev/job-uid":"job-uid","trainyard.dev/role":"worker"},"name":"mnist-worker-0","namespace":"default","ownerReferences":)"
      R"([{"apiVersion":"trainyard.dev/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"TrainingJob","name":"mnist","uid":"job-uid"}]},)"
      R"("spec":{"clusterIP":"None","ports":[{"name":"trainyard","port":5000,"protocol":"TCP","targetPort":5000}],"publishNotReadyAddresses":true,)"
      R"("selector":{"trainyard.dev/index":"0","trainyard.dev/job-name":"mnist","trainyard.dev/job-uid":"job-uid","trainyard.dev/role":"worker"}}})");
}

TEST(ServiceBuilder, TheHeadlessServiceSelectsAllPodsOfTheJob) {
  const json service = BuildHeadlessService(MakeJob().Replicas("worker", 1).Build());
  EXPECT_EQ(service["metadata"]["name"], "mnist");
  EXPECT_EQ(service["spec"]["selector"].dump(), R"({"trainyard.dev/job-name":"mnist","trainyard.dev/job-uid":"job-uid"})");
}

TEST(PodBuilder, APodWithoutATemplateIsExactToTheByte) {
  EXPECT_EQ(
      BuildPod(MakeJob().Replicas("worker", 1).Set("/spec/image", "trainyard/trainer:0.1").Build(), {Role::kWorker, 0})["spec"].dump(),
      R"({"containers":[{"command":["trainyard-trainer","train","--output","/var/lib/trainyard/mnist"],)"
      R"("env":[{"name":"TRAINYARD_ROLE","value":"worker"},{"name":"TRAINYARD_INDEX","value":"0"},{"name":"TRAINYARD_CONFIG_DIR","value":"/etc/trainyard"},)"
      R"({"name":"TRAINYARD_JOB_NAME","value":"mnist"},{"name":"TRAINYARD_JOB_UID","value":"job-uid"},)"
      R"({"name":"NVIDIA_VISIBLE_DEVICES","value":"void"},)"
      R"({"name":"TRAINYARD_NODE","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}],)"
      R"("image":"trainyard/trainer:0.1","name":"trainer","ports":[{"containerPort":5000,"name":"trainyard","protocol":"TCP"}],)"
      R"("securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},)"
      R"("terminationMessagePolicy":"FallbackToLogsOnError","volumeMounts":[{"mountPath":"/etc/trainyard","name":"trainyard-config","readOnly":true},)"
      R"({"mountPath":"/var/lib/trainyard","name":"trainyard-storage"}]}],"enableServiceLinks":false,"hostname":"mnist-worker-0","restartPolicy":"Never",)"
      R"("securityContext":{"fsGroup":65532,"fsGroupChangePolicy":"OnRootMismatch"},"subdomain":"mnist",)"
      R"("volumes":[{"configMap":{"name":"mnist-cluster"},"name":"trainyard-config"},{"emptyDir":{},"name":"trainyard-storage"}]})");
}

TEST(PodBuilder, TheClaimIsMountedWhereTheSpecSays) {
  const json spec = BuildPod(MakeJob().Replicas("ps", 1).Replicas("worker", 1).Claim("nfs").Set("/spec/storage/mountPath", "/out").Build(),
                             {Role::kPs, 0})["spec"];
  EXPECT_EQ(spec["volumes"][1].dump(), R"({"name":"trainyard-storage","persistentVolumeClaim":{"claimName":"nfs"}})");
  EXPECT_EQ(spec["containers"][0]["volumeMounts"][1].dump(), R"({"mountPath":"/out","name":"trainyard-storage"})");
  EXPECT_EQ(spec["containers"][0]["command"][3], "/out/mnist") << "jobs may share a claim";
}

TEST(PodBuilder, ATemplatesSecurityContextWinsAndForeignContainersGetNone) {
  const auto pod = [](const json& spec) {
    return BuildPod(MakeJob().Replicas("worker", 1).Template("worker", {{"spec", spec}}).Build(), {Role::kWorker, 0})["spec"];
  };
  const json own_pod = pod({{"securityContext", {{"runAsUser", 7}}}});
  EXPECT_EQ(own_pod["securityContext"].dump(), R"({"fsGroup":65532,"fsGroupChangePolicy":"OnRootMismatch","runAsUser":7})");
  EXPECT_FALSE(own_pod["containers"][0].contains("securityContext"));
  const json own_group = pod({{"securityContext", {{"fsGroup", 8}}}});
  EXPECT_EQ(own_group["securityContext"].dump(), R"({"fsGroup":8})");
  const json own_container = pod({{"containers", json::array({{{"securityContext", {{"privileged", true}}}}})}});
  EXPECT_EQ(own_container["containers"][0]["securityContext"].dump(), R"({"privileged":true})");
  const json own_image = pod({{"containers", json::array({{{"image", "me:1"}}})}});
  EXPECT_FALSE(own_image["containers"][0].contains("securityContext")) << "its user may be root";
  EXPECT_EQ(own_image["securityContext"]["fsGroup"], 65532);
  const json own_command = pod({{"containers", json::array({{{"image", "me:1"}, {"command", {"x"}}}})}});
  EXPECT_FALSE(own_command.contains("securityContext"));
  const json sidecar = pod({{"containers", json::array({{{"name", "trainer"}}, {{"name", "side"}, {"image", "side:1"}}})}});
  EXPECT_TRUE(sidecar["containers"][0]["securityContext"]["runAsNonRoot"]);
  EXPECT_FALSE(sidecar["containers"][1].contains("securityContext"));
  EXPECT_FALSE(
      BuildPod(MakeJob().Framework("PyTorch").Replicas("worker", 1).Build(), {Role::kWorker, 0})["spec"].contains("securityContext"));
}

TEST(PodBuilder, ANullMetadataKeepsTheGangsAnnotation) {
  const MakeJob job = MakeJob().Replicas("worker", 1).Policy("scheduling", {{"gang", "Volcano"}});
  for (const json& metadata : {json(), json({{"annotations", nullptr}}), json({{"annotations", "x"}})}) {
    const json pod = BuildPod(MakeJob(job).Template("worker", {{"metadata", metadata}}).Build(), {Role::kWorker, 0});
    EXPECT_EQ(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "mnist") << metadata;
  }
}

TEST(PodBuilder, AStartedJobKeepsTheDefaultImageOfItsStart) {
  TrainingJob job = MakeJob().Replicas("worker", 1).Build();
  EXPECT_EQ(BuildPod(job, {Role::kWorker, 0})["spec"]["containers"][0]["image"], "trainyard/trainer:0.1");
  job.status.image = "trainyard/trainer:0.0";
  EXPECT_EQ(BuildPod(job, {Role::kWorker, 0})["spec"]["containers"][0]["image"], "trainyard/trainer:0.0");
  TrainingJob named = MakeJob().Replicas("worker", 1).Set("/spec/image", "me:1").Build();
  named.status.image = "trainyard/trainer:0.0";
  EXPECT_EQ(BuildPod(named, {Role::kWorker, 0})["spec"]["containers"][0]["image"], "me:1");
}

TEST(PodBuilder, EverythingElseOfATemplatePassesThroughUntouched) {
  const json given = json::parse(R"({
    "metadata": {"labels": {"team": "x", "trainyard.dev/role": "stolen"}, "annotations": {"a": "b"}},
    "spec": {"runtimeClassName": "nvidia", "nodeSelector": {"gpu": "a100"}, "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
      "someFieldOfTomorrow": {"deep": [1, 2.5, null]},
      "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
      "initContainers": [{"name": "fetch", "image": "busybox"}],
      "containers": [
        {"name": "main", "image": "me:1", "command": ["python"], "resources": {"limits": {"nvidia.com/gpu": 2}}, "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
         "securityContext": {"runAsUser": 7}},
        {"name": "sidecar", "image": "side:1", "env": [{"name": "X", "value": "y"}]}]}})");
  const json pod = BuildPod(MakeJob().Replicas("worker", 1).Template("worker", given).Build(), {Role::kWorker, 0});
  const json& spec = pod["spec"];
  for (const char* field : {"runtimeClassName", "nodeSelector", "tolerations", "someFieldOfTomorrow"}) {
    EXPECT_EQ(spec[field], given["spec"][field]) << field;
  }
  json sidecar = given["spec"]["containers"][1];
  sidecar["terminationMessagePolicy"] = "FallbackToLogsOnError";
  EXPECT_EQ(spec["containers"][1], sidecar) << "containers after the first keep all but this";
  json fetch = given["spec"]["initContainers"][0];
  fetch["terminationMessagePolicy"] = "FallbackToLogsOnError";
  EXPECT_EQ(spec["initContainers"], json::array({fetch}));
  EXPECT_EQ(spec["volumes"][0], given["spec"]["volumes"][0]);
  for (const char* field : {"name", "image", "command", "resources", "securityContext"}) {
    EXPECT_EQ(spec["containers"][0][field], given["spec"]["containers"][0][field]) << field;
  }
  EXPECT_EQ(pod["metadata"]["labels"]["team"], "x");
  EXPECT_EQ(pod["metadata"]["labels"]["trainyard.dev/role"], "worker") << "ours must hold, or the pod is lost";
  EXPECT_EQ(pod["metadata"]["annotations"], json({{"a", "b"}, {"kubectl.kubernetes.io/default-container", "main"}}));
}

TEST(PodBuilder, TheTrainersContainerIsFoundByItsNameOrByTheAnnotation) {
  const auto pod = [](const json& annotations, const char* second) {
    const json containers = {{{"name", "proxy"}, {"image", "proxy:1"}}, {{"name", second}}};
    const json own = {{"metadata", {{"annotations", annotations}}}, {"spec", {{"containers", containers}}}};
    return BuildPod(MakeJob().Replicas("worker", 1).Template("worker", own).Build(), {Role::kWorker, 0});
  };
  const json annotation = {{"kubectl.kubernetes.io/default-container", "main"}};
  for (const json& built : {pod(json::object(), "trainer"), pod(annotation, "main")}) {
    const json& containers = built["spec"]["containers"];
    EXPECT_FALSE(containers[0].contains("env")) << containers;
    EXPECT_EQ(containers[1]["command"][0], "trainyard-trainer");
    EXPECT_EQ(containers[1]["image"], "trainyard/trainer:0.1");
    EXPECT_EQ(built["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"], containers[1]["name"]);
  }
  const json other = pod({{"kubectl.kubernetes.io/default-container", "proxy"}}, "trainer");
  EXPECT_EQ(other["spec"]["containers"][1]["command"][0], "trainyard-trainer");
  EXPECT_EQ(other["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"], "proxy") << "kubectl's default is the template's";
  EXPECT_EQ(pod(json::object(), "main")["spec"]["containers"][0]["command"][0], "trainyard-trainer");
}

TEST(PodBuilder, WhatTheTemplateSetsWinsAndTheClashIsNamed) {
  const json init = {{"name", "fetch"}, {"terminationMessagePolicy", "File"}};
  const json container = {{"terminationMessagePolicy", "File"},
                          {"env", {{{"name", "TRAINYARD_INDEX"}, {"value", "7"}}, {{"name", "MINE"}, {"value", "$(TRAINYARD_ROLE)"}}}},
                          {"volumeMounts", {{{"name", "own"}, {"mountPath", "/etc/trainyard"}}}}};
  const TrainingJob job =
      MakeJob()
          .Replicas("worker", 1)
          .Template(
              "worker",
              {{"spec",
                {{"enableServiceLinks", true}, {"containers", json::array({container})}, {"initContainers", json::array({init, 7})}}}})
          .Build();
  const json spec = BuildPod(job, {Role::kWorker, 0})["spec"];
  EXPECT_EQ(spec["initContainers"], json::array({init, 7}));
  EXPECT_EQ(spec["containers"][0]["env"].dump(),
            R"json([{"name":"TRAINYARD_ROLE","value":"worker"},{"name":"TRAINYARD_CONFIG_DIR","value":"/etc/trainyard"},)json"
            R"json({"name":"TRAINYARD_JOB_NAME","value":"mnist"},{"name":"TRAINYARD_JOB_UID","value":"job-uid"},)json"
            R"json({"name":"NVIDIA_VISIBLE_DEVICES","value":"void"},)json"
            R"json({"name":"TRAINYARD_NODE","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}},)json"
            R"json({"name":"TRAINYARD_INDEX","value":"7"},{"name":"MINE","value":"$(TRAINYARD_ROLE)"}])json");
  EXPECT_EQ(spec["containers"][0]["terminationMessagePolicy"], "File");
  EXPECT_EQ(spec["enableServiceLinks"], true);
  EXPECT_THAT(TemplateClashes(job, Role::kWorker), ElementsAre("mount /etc/trainyard", "env TRAINYARD_INDEX"));
  EXPECT_THAT(TemplateClashes(job, Role::kPs), IsEmpty());
}

TEST(PodBuilder, ResourcesOfTheRoleAreTheContainersUnlessItHasItsOwn) {
  const json limits = {{"limits", {{"nvidia.com/gpu", 1}}}};
  MakeJob job = MakeJob().Replicas("worker", 1).Set("/spec/worker/resources", limits);
  EXPECT_EQ(BuildPod(job.Build(), {Role::kWorker, 0})["spec"]["containers"][0]["resources"], limits);
  job.Template("worker", {{"spec", {{"containers", {{{"resources", {{"limits", {{"cpu", 2}}}}}}}}}}});
  EXPECT_EQ(BuildPod(job.Build(), {Role::kWorker, 0})["spec"]["containers"][0]["resources"].dump(), R"({"limits":{"cpu":2}})");
}

TEST(PodBuilder, RestartPoliciesBecomeThoseOfPods) {
  const std::map<std::string, std::string> expected = {
      {"Always", "Always"}, {"OnFailure", "OnFailure"}, {"Never", "Never"}, {"ExitCode", "Never"}};
  for (const auto& [ours, theirs] : expected) {
    EXPECT_EQ(BuildPod(MakeJob().Replicas("worker", 1).Restart("worker", ours).Build(), {Role::kWorker, 0})["spec"]["restartPolicy"],
              theirs);
  }
}

TEST(PodBuilder, PodsAreFoundByHostnameAndSubdomain) {
  const json spec = BuildPod(MakeJob().Replicas("worker", 1).Build(), {Role::kWorker, 0})["spec"];
  EXPECT_EQ(spec["hostname"], "mnist-worker-0");
  EXPECT_EQ(spec["subdomain"], "mnist");
}

TEST(PodBuilder, AnotherFrameworksImageRunsItsOwnCommand) {
  const json container =
      BuildPod(MakeJob().Framework("PyTorch").Replicas("worker", 1).Build(), {Role::kWorker, 0})["spec"]["containers"][0];
  EXPECT_FALSE(container.contains("command"));
  EXPECT_EQ(container["image"], "me/image:1");
}

TEST(FrameworkEnv, NoneGetsTheThreeOfTheContractOnlyAndTrainyardTheJobsIdentity) {
  EXPECT_THAT(ReplicaEnvironment(MakeJob().Framework("None").Replicas("worker", 2).Build(), {Role::kWorker, 1}),
              ElementsAre(Pair("TRAINYARD_ROLE", "worker"), Pair("TRAINYARD_INDEX", "1"), Pair("TRAINYARD_CONFIG_DIR", "/etc/trainyard")));
  EXPECT_THAT(
      ReplicaEnvironment(MakeJob().Framework("Trainyard").Replicas("worker", 2).Build(), {Role::kWorker, 1}),
      ElementsAre(Pair("TRAINYARD_ROLE", "worker"), Pair("TRAINYARD_INDEX", "1"), Pair("TRAINYARD_CONFIG_DIR", "/etc/trainyard"),
                  Pair("TRAINYARD_JOB_NAME", "mnist"), Pair("TRAINYARD_JOB_UID", "job-uid"), Pair("NVIDIA_VISIBLE_DEVICES", "void")));
}

TEST(FrameworkEnv, OnlyAReplicaThatAsksForADeviceMaySeeOneWhateverItsImageSays) {
  const auto sees = [](const char* framework, const json& resources, Role role) {
    MakeJob job = MakeJob().Replicas("chief", 1).Replicas("worker", 1).Set("/spec/worker/resources", resources);
    if (std::string(framework) != "Trainyard") job.Framework(framework);
    return Value(ReplicaEnvironment(job.Build(), {role, 0}), "NVIDIA_VISIBLE_DEVICES");
  };
  const json cpu = {{"limits", {{"cpu", 4}}}};
  const std::string unsaid = "(absent)";  // the device plugin says it
  for (const char* device : {"nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared"}) {
    const json asks = {{"limits", {{device, 1}}}};
    EXPECT_EQ(sees("Trainyard", asks, Role::kWorker), unsaid) << device;
    EXPECT_EQ(sees("Trainyard", asks, Role::kChief), "void") << device;
  }
  EXPECT_EQ(sees("Trainyard", {{"claims", {{{"name", "gpu"}}}}}, Role::kWorker), unsaid);
  EXPECT_EQ(sees("Trainyard", cpu, Role::kWorker), "void");
  EXPECT_EQ(sees("MPI", cpu, Role::kChief), "void") << "the launcher";
  EXPECT_EQ(sees("MPI", cpu, Role::kWorker), unsaid);
  EXPECT_EQ(sees("PyTorch", cpu, Role::kWorker), unsaid) << "programs of others decide themselves";
  const json own = {{"spec", {{"containers", {{{"env", {{{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "all"}}}}}}}}}};
  const json env =
      BuildPod(MakeJob().Replicas("worker", 1).Template("worker", own).Build(), {Role::kWorker, 0})["spec"]["containers"][0]["env"];
  EXPECT_EQ(env.back().dump(), R"({"name":"NVIDIA_VISIBLE_DEVICES","value":"all"})");
  EXPECT_EQ(env[env.size() - 2]["name"], "TRAINYARD_NODE") << "a template wins";
}

TEST(FrameworkEnv, OneProcessIsStartedForEachWholeGpu) {
  const auto processes = [](const char* device) {
    const MakeJob job = MakeJob().Replicas("worker", 1).Set("/spec/worker/resources/limits", {{device, 2}});
    const std::string hostfile = BuildConfigData(job.Build(), 1, "")["hostfile"];
    EXPECT_EQ(hostfile.back(), '\n');
    const std::string slots = hostfile.substr(hostfile.find('=') + 1, 1);
    EXPECT_EQ(Value(ReplicaEnvironment(MakeJob(job).Framework("PyTorch").Build(), {Role::kWorker, 0}), "PET_NPROC_PER_NODE"), slots);
    return slots;
  };
  EXPECT_EQ(processes("nvidia.com/gpu"), "2");
  EXPECT_EQ(processes("amd.com/gpu"), "2");
  EXPECT_EQ(processes("nvidia.com/mig-1g.5gb"), "1");
  EXPECT_EQ(processes("nvidia.com/gpu.shared"), "1");
}

TEST(FrameworkEnv, TfConfigNamesTheClusterAndTheTask) {
  const TrainingJob job =
      MakeJob().Framework("TensorFlow").Replicas("chief", 1).Replicas("ps", 1).Replicas("worker", 2).Replicas("evaluator", 1).Build();
  const std::string cluster = R"({"cluster":{"chief":["mnist-chief-0.mnist.default.svc:5000"],"ps":["mnist-ps-0.mnist.default.svc:5000"],)"
                              R"("worker":["mnist-worker-0.mnist.default.svc:5000","mnist-worker-1.mnist.default.svc:5000"]},"task":)";
  EXPECT_EQ(Value(ReplicaEnvironment(job, {Role::kWorker, 1}), "TF_CONFIG"), cluster + R"({"type":"worker","index":1}})");
  EXPECT_EQ(Value(ReplicaEnvironment(job, {Role::kChief, 0}), "TF_CONFIG"), cluster + R"({"type":"chief","index":0}})");
  EXPECT_EQ(Value(ReplicaEnvironment(job, {Role::kEvaluator, 0}), "TF_CONFIG"), cluster + R"({"type":"evaluator","index":0}})");
}

TEST(FrameworkEnv, ASparseTfConfigNamesTheWorkerItselfAndTheServers) {
  const TrainingJob job =
      MakeJob().Framework("TensorFlow").Replicas("ps", 2).Replicas("worker", 3).Set("/spec/network/hostList", "Sparse").Build();
  EXPECT_EQ(
      Value(ReplicaEnvironment(job, {Role::kWorker, 2}), "TF_CONFIG"),
      R"({"sparseCluster":{"worker":{"2":"mnist-worker-2.mnist.default.svc:5000"},"ps":["mnist-ps-0.mnist.default.svc:5000","mnist-ps-1.mnist.default.svc:5000"]},)"
      R"("task":{"type":"worker","index":2}})");
  EXPECT_EQ(Value(ReplicaEnvironment(job, {Role::kPs, 1}), "TF_CONFIG"),
            R"({"sparseCluster":{"worker":{},"ps":["mnist-ps-1.mnist.default.svc:5000"]},"task":{"type":"ps","index":1}})");
}

TEST(FrameworkEnv, PyTorchRanksTheChiefFirst) {
  const TrainingJob job = MakeJob()
                              .Framework("PyTorch")
                              .Replicas("chief", 1)
                              .Replicas("worker", 2)
                              .Set("/spec/worker/resources/limits", {{"nvidia.com/gpu", 8}})
                              .Build();
  EnvironmentList env = ReplicaEnvironment(job, {Role::kWorker, 1});
  env.erase(env.begin(), env.begin() + 3);
  EXPECT_THAT(
      env, ElementsAre(Pair("MASTER_ADDR", "mnist-chief-0.mnist.default.svc"), Pair("MASTER_PORT", "5000"), Pair("RANK", "2"),
                       Pair("WORLD_SIZE", "3"), Pair("PET_MASTER_ADDR", "mnist-chief-0.mnist.default.svc"), Pair("PET_MASTER_PORT", "5000"),
                       Pair("PET_NODE_RANK", "2"), Pair("PET_NNODES", "3"), Pair("PET_NPROC_PER_NODE", "8")));
  EXPECT_EQ(Value(ReplicaEnvironment(job, {Role::kChief, 0}), "RANK"), "0");
  const TrainingJob without_chief = MakeJob().Framework("PyTorch").Replicas("worker", 2).Build();
  EXPECT_EQ(Value(ReplicaEnvironment(without_chief, {Role::kWorker, 1}), "RANK"), "1");
  EXPECT_EQ(Value(ReplicaEnvironment(without_chief, {Role::kWorker, 1}), "WORLD_SIZE"), "2");
  EXPECT_EQ(Value(ReplicaEnvironment(without_chief, {Role::kWorker, 1}), "MASTER_ADDR"), "mnist-worker-0.mnist.default.svc");
}

TEST(FrameworkEnv, ElasticPyTorchFindsItsRendezvousAndNoRank) {
  const TrainingJob job = MakeJob()
                              .Framework("PyTorch")
                              .Replicas("worker", 3)
                              .Policy("backoffLimit", 9)
                              .Set("/spec/elastic", {{"minWorkers", 2}, {"maxWorkers", 4}})
                              .Build();
  EXPECT_THAT(job.problems, IsEmpty());
  EnvironmentList env = ReplicaEnvironment(job, {Role::kWorker, 1});
  env.erase(env.begin(), env.begin() + 3);
  EXPECT_THAT(env, ElementsAre(Pair("PET_RDZV_BACKEND", "c10d"), Pair("PET_RDZV_ENDPOINT", "mnist-worker-0.mnist.default.svc:5000"),
                               Pair("PET_RDZV_ID", "job-uid"), Pair("PET_RDZV_CONF", "is_host=false"), Pair("PET_NNODES", "2:4"),
                               Pair("PET_NPROC_PER_NODE", "1"), Pair("PET_MAX_RESTARTS", "9")));
  EXPECT_EQ(Value(ReplicaEnvironment(job, {Role::kWorker, 0}), "PET_RDZV_CONF"), "is_host=true");
}

TEST(FrameworkEnv, JaxAndXgboostRankTheChiefFirst) {
  const auto env = [](const char* framework) {
    EnvironmentList env =
        ReplicaEnvironment(MakeJob().Framework(framework).Replicas("chief", 1).Replicas("worker", 2).Build(), {Role::kWorker, 1});
    env.erase(env.begin(), env.begin() + 3);
    return env;
  };
  EXPECT_THAT(env("JAX"), ElementsAre(Pair("JAX_COORDINATOR_ADDRESS", "mnist-chief-0.mnist.default.svc:5000"), Pair("JAX_PROCESS_ID", "2"),
                                      Pair("JAX_NUM_PROCESSES", "3")));
  EXPECT_THAT(env("XGBoost"), ElementsAre(Pair("DMLC_TRACKER_URI", "mnist-chief-0.mnist.default.svc"), Pair("DMLC_TRACKER_PORT", "5000"),
                                          Pair("DMLC_TASK_ID", "2"), Pair("DMLC_NUM_WORKER", "3")));
}

TEST(FrameworkEnv, EveryReplicaIsToldThePortOfProgressWhereTheJobNamesOne) {
  const MakeJob job = MakeJob().Framework("None").Replicas("worker", 1);
  EXPECT_EQ(Value(ReplicaEnvironment(job.Build(), {Role::kWorker, 0}), "TRAINYARD_PROGRESS_PORT"), "(absent)");
  EXPECT_EQ(Value(ReplicaEnvironment(MakeJob(job).Set("/spec/network/progressPort", 7001).Build(), {Role::kWorker, 0}),
                  "TRAINYARD_PROGRESS_PORT"),
            "7001");
}

TEST(FrameworkEnv, MxNetsChiefIsTheScheduler) {
  const TrainingJob job = MakeJob().Framework("MXNet").Replicas("chief", 1).Replicas("ps", 2).Replicas("worker", 3).Build();
  EnvironmentList env = ReplicaEnvironment(job, {Role::kWorker, 2});
  env.erase(env.begin(), env.begin() + 3);
  EXPECT_THAT(env, ElementsAre(Pair("DMLC_ROLE", "worker"), Pair("DMLC_USE_KUBERNETES", "1"),
                               Pair("DMLC_PS_ROOT_URI", "mnist-chief-0.mnist.default.svc"), Pair("DMLC_PS_ROOT_PORT", "5000"),
                               Pair("DMLC_NUM_SERVER", "2"), Pair("DMLC_NUM_WORKER", "3"), Pair("DMLC_WORKER_ID", "2")));
  EXPECT_EQ(Value(ReplicaEnvironment(job, {Role::kChief, 0}), "DMLC_ROLE"), "scheduler");
  EXPECT_EQ(Value(ReplicaEnvironment(job, {Role::kPs, 0}), "DMLC_ROLE"), "server");
  EXPECT_EQ(Value(ReplicaEnvironment(job, {Role::kPs, 0}), "DMLC_WORKER_ID"), "(absent)");
}

TEST(FrameworkEnv, MpisLauncherFindsTheHostfileAndItsPodsTheKeys) {
  const TrainingJob job = MakeJob().Framework("MPI").Replicas("chief", 1).Replicas("worker", 2).Build();
  EnvironmentList env = ReplicaEnvironment(job, {Role::kChief, 0});
  env.erase(env.begin(), env.begin() + 3);
  const char ssh[] = "-o ConnectionAttempts=10 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR";
  EXPECT_THAT(
      env, ElementsAre(Pair("OMPI_MCA_orte_default_hostfile", "/etc/trainyard/hostfile"), Pair("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
                       Pair("OMPI_MCA_plm_rsh_args", ssh), Pair("HYDRA_HOST_FILE", "/etc/trainyard/hostfile_hydra"),
                       Pair("HYDRA_LAUNCHER_EXTRA_ARGS", ssh), Pair("I_MPI_HYDRA_HOST_FILE", "/etc/trainyard/hostfile_hydra"),
                       Pair("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", ssh), Pair("NVIDIA_VISIBLE_DEVICES", "void")));
  const json worker = BuildPod(job, {Role::kWorker, 1})["spec"];
  EXPECT_EQ(worker["containers"][0]["command"].dump(), R"(["/usr/sbin/sshd","-De","-o","StrictModes=no"])");
  EXPECT_EQ(
      worker["volumes"][1].dump(),
      R"({"name":"trainyard-ssh","secret":{"defaultMode":384,"items":[{"key":"ssh-privatekey","path":"id_rsa"},{"key":"ssh-publickey","path":"id_rsa.pub"},)"
      R"({"key":"ssh-publickey","path":"authorized_keys"}],"secretName":"mnist-ssh"}})");
  EXPECT_EQ(ReplicaEnvironment(job, {Role::kWorker, 1}).size(), 3U);
}

TEST(PodGroupBuilder, GangsAskForAllReplicasUnlessToldOtherwise) {
  MakeJob job =
      MakeJob().Replicas("ps", 1).Replicas("worker", 3).Policy("scheduling", {{"gang", "Volcano"}, {"queue", "q"}, {"priorityClass", "p"}});
  EXPECT_EQ(BuildPodGroup(job.Build())["spec"].dump(), R"({"minMember":4,"priorityClassName":"p","queue":"q"})");
  const json pod = BuildPod(job.Build(), {Role::kWorker, 0});
  EXPECT_EQ(pod["spec"]["schedulerName"], "volcano");
  EXPECT_EQ(pod["spec"]["priorityClassName"], "p");
  EXPECT_EQ(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "mnist");
  job.Policy("scheduling", {{"gang", "Coscheduling"}, {"minAvailable", 2}});
  EXPECT_EQ(BuildPodGroup(job.Build()).value("apiVersion", ""), "scheduling.x-k8s.io/v1alpha1");
  EXPECT_EQ(BuildPodGroup(job.Build())["spec"].dump(), R"({"minMember":2})");
  EXPECT_EQ(BuildPod(job.Build(), {Role::kWorker, 0})["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "mnist");
}

}  // namespace
}  // namespace trainyard::control
