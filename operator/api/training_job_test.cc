#include "operator/api/training_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/api/schema.h"
#include "operator/api/validation.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json Object(const json& spec) {
  return {{"apiVersion", "trainyard.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata", {{"name", "mnist"}, {"namespace", "default"}, {"uid", "u"}, {"resourceVersion", "1"}, {"generation", 4}}},
          {"spec", spec}};
}

TrainingJob Decode(const json& spec) { return *DecodeJob({}, Object(spec)); }

auto Error(const std::string& path, const std::string& part) {
  return AllOf(Field(&FieldError::path, path), Field(&FieldError::message, HasSubstr(part)));
}

TEST(TrainingJob, TheTrainerAnswersForItsProgressOnTheNextPortAndOtherFrameworksWhereTheJobSays) {
  EXPECT_EQ(Decode({{"worker", json::object()}}).spec.ProgressPort(), 5001);
  json other = {{"framework", "JAX"}, {"image", "x"}, {"worker", json::object()}};
  EXPECT_EQ(Decode(other).spec.ProgressPort(), std::nullopt);
  other["network"]["progressPort"] = 7001;
  EXPECT_EQ(Decode(other).spec.ProgressPort(), 7001);
  EXPECT_THAT(Decode(other).problems, IsEmpty());
  other["network"]["port"] = 7001;
  EXPECT_THAT(Decode(other).problems, ElementsAre(Error("spec.network.progressPort", "where the framework listens; choose another")));
  EXPECT_THAT(Decode({{"worker", json::object()}, {"network", {{"progressPort", 7001}}}}).problems,
              ElementsAre(Error("spec.network.progressPort", "found 7001, but the Trainyard trainer answers on network.port + 1")));
}

TEST(TrainingJob, AnElasticJobIsOfPyTorchWithoutAChiefAndWithinItsNumbers) {
  json job = {{"framework", "PyTorch"}, {"image", "x"}, {"worker", {{"replicas", 2}}}, {"elastic", {{"minWorkers", 2}, {"maxWorkers", 3}}}};
  EXPECT_THAT(Decode(job).problems, IsEmpty());
  job["worker"]["replicas"] = 4;
  EXPECT_THAT(Decode(job).problems, ElementsAre(Error("spec.worker.replicas", "found 4, expected 2 to 3")));
  job["elastic"] = {{"minWorkers", 5}, {"maxWorkers", 3}};
  EXPECT_THAT(Decode(job).problems, ElementsAre(Error("spec.elastic", "found minWorkers 5 above maxWorkers 3")));
  job["elastic"] = {{"minWorkers", 2}, {"maxWorkers", 3}};
  job["worker"]["replicas"] = 3;
  job["chief"] = json::object();
  EXPECT_THAT(Decode(job).problems, ElementsAre(Error("spec.elastic", "found a chief")));
  job.erase("chief");
  job["framework"] = "JAX";
  EXPECT_THAT(Decode(job).problems, ElementsAre(Error("spec.elastic", "is for torchrun, found framework JAX")));
}

TEST(TrainingJob, ReadsEveryFieldOfTheSpec) {
  const TrainingJob job = Decode(json::parse(R"({
    "framework": "TensorFlow", "image": "me:1", "managedBy": "example.com/x",
    "ps": {"replicas": 2, "restartPolicy": "Never"}, "worker": {"replicas": 3, "restartPolicy": "ExitCode", "resources": {"limits": {"nvidia.com/gpu": "2"}}, "template": {"spec": {}}},
    "chief": {}, "storage": {"claimName": "c", "mountPath": "/out"},
    "network": {"port": 1234, "services": "PerReplica", "hostList": "Sparse", "clusterDomain": "cluster.local"},
    "runPolicy": {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 5, "activeDeadlineSeconds": 6, "backoffLimit": 7, "suspend": true,
      "successPolicy": "AllWorkers", "startPolicy": "Any", "lostNodePolicy": "ForceDelete", "exitCodes": [{"from": 1, "to": 2, "action": "Ignore"}],
      "scheduling": {"gang": "Volcano", "minAvailable": 2, "queue": "q", "priorityClass": "p"}}})"));
  EXPECT_THAT(job.problems, IsEmpty());
  EXPECT_EQ(job.meta.generation, 4);
  EXPECT_EQ(job.spec.framework, Framework::kTensorFlow);
  EXPECT_EQ(job.spec.Replicas(Role::kPs), 2);
  EXPECT_EQ(job.spec.Find(Role::kPs)->restart_policy, RestartPolicy::kNever);
  EXPECT_EQ(job.spec.Find(Role::kWorker)->gpus, 2);
  EXPECT_EQ(job.spec.Find(Role::kWorker)->pod_template, R"({"spec":{}})");
  EXPECT_EQ(job.spec.Replicas(Role::kChief), 1) << "a role that is named has one replica";
  EXPECT_EQ(job.spec.Replicas(Role::kEvaluator), 0);
  EXPECT_EQ(job.spec.storage.claim_name, "c");
  EXPECT_EQ(job.spec.network.port, 1234);
  EXPECT_EQ(job.spec.network.services, ServicesMode::kPerReplica);
  EXPECT_EQ(job.spec.network.host_list, HostList::kSparse);
  const RunPolicy& policy = job.spec.run_policy;
  EXPECT_EQ(policy.clean_pod_policy, CleanPodPolicy::kAll);
  EXPECT_EQ(policy.ttl_after_finished, absl::Seconds(5));
  EXPECT_EQ(policy.active_deadline, absl::Seconds(6));
  EXPECT_EQ(policy.backoff_limit, 7);
  EXPECT_TRUE(policy.suspend);
  EXPECT_EQ(policy.success_policy, SuccessPolicy::kAllWorkers);
  EXPECT_EQ(policy.start_policy, StartPolicy::kAny);
  EXPECT_EQ(policy.lost_node_policy, LostNodePolicy::kForceDelete);
  ASSERT_EQ(policy.exit_codes.size(), 1U);
  EXPECT_EQ(policy.exit_codes[0].action, ExitAction::kIgnore);
  EXPECT_EQ(policy.scheduling.gang, Gang::kVolcano);
  EXPECT_EQ(job.spec.managed_by, "example.com/x");
}

TEST(TrainingJob, ReadsWhatIsServed) {
  const char* with = R"({"worker": {}, "storage": {"claimName": "c"}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1,
    "evaluate": {"earlyStopping": {"restoreBest": true}}, "checkpoint": {"dir": "/var/lib/trainyard/kept"}}})";
  json spec = json::parse(with);
  EXPECT_FALSE(Decode(spec).spec.serve);
  spec["serve"] = json::object();
  TrainingJob job = Decode(spec);
  EXPECT_THAT(job.problems, IsEmpty());
  EXPECT_EQ(job.spec.serve->replicas, 1);
  EXPECT_EQ(job.spec.serve->when, ServeWhen::kFinal);
  spec["serve"] = json::parse(R"({"replicas": 0, "when": "best", "resources": {"limits": {"cpu": 1}}})");
  job = Decode(spec);
  EXPECT_THAT(job.problems, IsEmpty());
  EXPECT_EQ(job.spec.serve->replicas, 0);
  EXPECT_EQ(job.spec.serve->when, ServeWhen::kBest);
  EXPECT_EQ(job.spec.serve->resources, R"({"limits":{"cpu":1}})");
}

TEST(TrainingJob, DefaultsAreThoseOfTheDesign) {
  const TrainingJob job = Decode({{"worker", json::object()}});
  EXPECT_THAT(job.problems, IsEmpty());
  EXPECT_EQ(job.spec.framework, Framework::kTrainyard);
  EXPECT_EQ(job.spec.image, "trainyard/trainer:0.1");
  EXPECT_EQ(job.spec.run_policy.backoff_limit, 6);
  EXPECT_EQ(job.spec.run_policy.start_policy, StartPolicy::kPsReady);
  EXPECT_EQ(job.spec.run_policy.success_policy, SuccessPolicy::kChief);
  EXPECT_EQ(job.spec.run_policy.clean_pod_policy, CleanPodPolicy::kRunning);
  EXPECT_EQ(job.spec.network.port, 5000);
  EXPECT_EQ(job.spec.network.services, ServicesMode::kHeadless);
  EXPECT_EQ(Decode({{"framework", "MPI"}, {"image", "x"}, {"worker", json::object()}}).spec.network.services, ServicesMode::kPerReplica)
      << "Hydra's ranks know the launcher by its pod's name";
  EXPECT_EQ(job.spec.storage.mount_path, "/var/lib/trainyard");
  EXPECT_EQ(job.spec.Find(Role::kWorker)->restart_policy, RestartPolicy::kExitCode);
  EXPECT_EQ(Decode({{"framework", "TensorFlow"}, {"image", "x"}, {"worker", json::object()}}).spec.Find(Role::kWorker)->restart_policy,
            RestartPolicy::kOnFailure);
  EXPECT_EQ(job.spec.run_policy.lost_node_policy, LostNodePolicy::kWait);
  EXPECT_EQ(job.spec.managed_by, "trainyard.dev/operator");
}

TEST(TrainingJob, AnObjectThatIsNoneIsRefusedAndHostileOnesAreRead) {
  EXPECT_FALSE(TrainingJob::FromJson(json()).ok());
  EXPECT_FALSE(TrainingJob::FromJson({{"metadata", 3}}).ok());
  for (const json& spec : {json(), json(3), json::array(), json{{"worker", 3}}, json{{"worker", {{"replicas", 1e300}}}},
                           json{{"runPolicy", {{"exitCodes", {1, 2}}}}}}) {
    EXPECT_TRUE(TrainingJob::FromJson(Object(spec)).ok()) << spec;
  }
}

TEST(TrainingJob, AStatusReadsBackAsItWasWritten) {
  TrainingJobStatus status;
  const absl::Time time = absl::FromUnixSeconds(1'800'000'000);
  status.observed_generation = 3;
  status.phase = JobPhase::kRestarting;
  status.message = "waits";
  status.conditions = {{"Created", true, "Accepted", "m", time}, {"Running", false, "X", "", time}};
  status.replica_statuses[Role::kWorker] = {
      .desired = 4, .active = 3, .ready = 2, .succeeded = 1, .failed = 0, .restarts = 5, .completed = "0"};
  status.restarts = 5;
  status.disruptions = 2;
  status.hosts_epoch = 2;
  status.hosts_hash = "abc";
  status.image = "trainyard/trainer:0.1";
  status.start_time = time;
  status.running_time = time + absl::Seconds(3);
  status.completion_time = time + absl::Seconds(9);
  status.progress = Progress{.step = 1,
                             .total_steps = 8,
                             .loss = 0.1,
                             .metrics = {{"accuracy", 0.9}},
                             .eta_seconds = 3,
                             .updated_time = time,
                             .stragglers = {"worker-1"}};
  status.serving = Serving{.ready_replicas = 2, .version = 568, .url = "http://a"};
  status.failure = Failure{"worker-1", "p", "fetch", "n", 137, 9, "OOMKilled", "tail"};
  status.restart_records = {{"worker-1", "uid", 2, 1, true, 3, 1, time + absl::Microseconds(123456)}};
  status.failed_nodes = {{"worker-1", "node-7"}};
  status.selector = "a=b";
  EXPECT_EQ(StatusFromJson(StatusToJson(status)), status);
  EXPECT_EQ(StatusFromJson(json()), TrainingJobStatus());
}

TEST(TrainingJob, ConditionsOfOtherControllersAreKeptAsTheyAre) {
  const json foreign = json::parse(R"({"type": "example.com/Audited", "status": "Unknown", "reason": "R", "message": "m",
    "observedGeneration": 7, "lastTransitionTime": "2027-01-15T08:00:00Z", "more": [1]})");
  const json own =
      json::parse(R"({"type": "Running", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"})");
  const TrainingJobStatus status = StatusFromJson({{"conditions", {foreign, own}}});
  EXPECT_EQ(status.Find("example.com/Audited"), nullptr);
  EXPECT_EQ(StatusToJson(status)["conditions"], json::array({own, foreign}));
}

TEST(TrainingJob, TheNewestEvaluationIsOneLineForAColumn) {
  TrainingJobStatus status;
  status.progress = Progress{.step = 1, .metrics = {{"accuracy", 0.97312}, {"loss", 0.08}, {"topFive", 1}, {"zeta", 2}}};
  EXPECT_EQ(StatusToJson(status)["progress"]["evaluation"], "accuracy 0.9731, loss 0.08, topFive 1");
}

TEST(TrainingJob, AStatusUpdateCarriesIdentityAndVersionOnly) {
  ObjectMeta meta;
  meta.name = "a";
  meta.name_space = "b";
  meta.uid = "c";
  meta.resource_version = "7";
  EXPECT_EQ(
      StatusUpdateBody(meta, {}).dump(),
      R"({"apiVersion":"trainyard.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"a","namespace":"b","resourceVersion":"7","uid":"c"},"status":{"restarts":0}})");
}

TEST(Validation, UnknownFieldsAreWarnedOfWithASuggestionAndMakeNoJobInvalid) {
  const TrainingJob job = Decode(json::parse(
      R"({"worker": {"replica": 2}, "runPolicy": {"backofLimit": 1}, "training": {"epochs": 1, "model": {"preset": "lenet5"}, "data": {"format": "idx"}, "batchsize": 1}})"));
  EXPECT_THAT(job.problems, IsEmpty()) << "a newer version's CRD knows them";
  EXPECT_THAT(job.unknown, testing::UnorderedElementsAre(Error("spec.worker.replica", "did you mean \"replicas\"?"),
                                                         Error("spec.runPolicy.backofLimit", "did you mean \"backoffLimit\"?"),
                                                         Error("spec.training.batchsize", "did you mean \"batchSize\"?")));
}

TEST(Validation, WhatTheServerPrunedIsFoundInWhatKubectlApplied) {
  json object = Object({{"worker", {{"replicas", 1}}}});
  object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
      R"({"spec": {"worker": {"replicas": 1}, "workers": {}}})";
  EXPECT_THAT(DecodeJob({}, object)->problems, ElementsAre(Error("spec.workers", "did you mean \"worker\"?")));
  object["status"]["startTime"] = "2026-01-01T00:00:00Z";
  EXPECT_THAT(DecodeJob({}, object)->problems, IsEmpty()) << "a job that runs goes on";
  EXPECT_THAT(DecodeJob({}, object)->unknown, ElementsAre(Error("spec.workers", "did you mean \"worker\"?")));
  object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "{no json";
  EXPECT_THAT(DecodeJob({}, object)->problems, IsEmpty());
}

TEST(Validation, TypesWordsAndRangesAreToldWithWhatWasFound) {
  EXPECT_THAT(Decode({{"worker", {{"replicas", "two"}}}}).problems,
              ElementsAre(Error("spec.worker.replicas", "found \"two\", expected an integer")));
  EXPECT_THAT(Decode({{"worker", {{"restartPolicy", "Sometimes"}}}}).problems,
              ElementsAre(Error("spec.worker.restartPolicy", "found \"Sometimes\", expected one of")));
  EXPECT_THAT(Decode({{"worker", {{"replicas", 5000}}}}).problems,
              testing::Contains(Error("spec.worker.replicas", "expected at most 4096")));
}

struct Case {
  const char* name;
  const char* spec;
  const char* path;
  const char* message;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class ValidationTable : public testing::TestWithParam<Case> {};

TEST_P(ValidationTable, NamesTheFieldAndWhatToDo) {
  EXPECT_THAT(Decode(json::parse(GetParam().spec)).problems, ElementsAre(Error(GetParam().path, GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ValidationTable,
    testing::Values(
        Case{"NobodyTrains", R"({"ps": {}})", "spec.worker.replicas", "set worker.replicas"},
        Case{"MxNetWithoutScheduler", R"({"framework": "MXNet", "image": "i", "worker": {}})", "spec.chief", "add chief: {replicas: 1}"},
        Case{"ServersOfAFrameworkWithoutThem", R"({"framework": "JAX", "image": "i", "worker": {}, "ps": {"replicas": 2}})",
             "spec.ps.replicas", "found 2, but framework JAX has no parameter servers, and its replicas would wait for them; remove ps"},
        Case{"AllWorkersOfMpi",
             R"({"framework": "MPI", "image": "i", "worker": {}, "chief": {}, "runPolicy": {"successPolicy": "AllWorkers"}})",
             "spec.runPolicy.successPolicy", "run sshd, which does not end; use Chief"},
        Case{"NoImage", R"({"framework": "PyTorch", "worker": {}})", "spec.image", "set it"},
        Case{"TwoChiefs", R"({"chief": {"replicas": 2}})", "spec.chief.replicas", "expected at most 1"},
        Case{"TrainingOfAnotherFramework",
             R"({"framework": "PyTorch", "image": "i", "worker": {}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1}})",
             "spec.training", "remove it"},
        Case{
            "ServersMissing",
            R"({"worker": {}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1, "strategy": {"parameterServer": {"mode": "sync"}}}})",
            "spec.ps.replicas", "set ps.replicas"},
        Case{"ServersBesideAllReduce",
             R"({"worker": {}, "ps": {}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1, "strategy": {"allReduce": {}}}})",
             "spec.ps.replicas", "remove ps"},
        Case{
            "ChiefBesideAllReduce",
            R"({"worker": {}, "chief": {}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1, "strategy": {"allReduce": {}}}})",
            "spec.chief.replicas", "remove chief"},
        Case{"ServersOfOneProcess", R"({"worker": {}, "ps": {}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1}})",
             "spec.ps.replicas", "found 1, but training.strategy local trains in one worker, without servers"},
        Case{"WorkersOfOneProcess",
             R"({"worker": {"replicas": 2}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1, "strategy": {"local": {}}}})",
             "spec.worker.replicas", "found 2, but training.strategy local trains in one worker"},
        Case{"ChiefBesideTheWorkerOfOneProcess",
             R"({"worker": {}, "chief": {}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1}})", "spec.worker.replicas",
             "found 1 beside a chief"},
        Case{
            "DevicesThatAreNoPartOfTheTree",
            R"({"worker": {"replicas": 2}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1, "devices": 3, "strategy": {"allReduce": {}}}})",
            "spec.training.devices", "a power of two"},
        Case{"NeitherEpochsNorSteps", R"({"worker": {}, "training": {"model": {}, "data": {"format": "idx"}}})", "spec.training",
             "found neither"},
        Case{"BothEpochsAndSteps", R"({"worker": {}, "training": {"model": {}, "data": {"format": "idx"}, "epochs": 1, "steps": 1}})",
             "spec.training", "found both"},
        Case{"AllWorkersWithoutWorkers", R"({"chief": {}, "runPolicy": {"successPolicy": "AllWorkers"}})", "spec.runPolicy.successPolicy",
             "use Chief"},
        Case{
            "ExitCodesThatNobodyAsks",
            R"({"framework": "PyTorch", "image": "i", "worker": {}, "runPolicy": {"exitCodes": [{"from": 42, "to": 42, "action": "Fail"}]}})",
            "spec.runPolicy.exitCodes", "set worker.restartPolicy: ExitCode, or use podFailurePolicy"},
        Case{"ExitCodesUpsideDown", R"({"worker": {}, "runPolicy": {"exitCodes": [{"from": 9, "to": 3, "action": "Fail"}]}})",
             "spec.runPolicy.exitCodes[0]", "found 9-3"},
        Case{"GangLargerThanTheJob", R"({"worker": {}, "runPolicy": {"scheduling": {"gang": "Volcano", "minAvailable": 9}}})",
             "spec.runPolicy.scheduling.minAvailable", "the job has 1 replica;"},
        Case{"ExclusiveOfNothing", R"({"worker": {}, "runPolicy": {"scheduling": {"placement": "Exclusive"}}})",
             "spec.runPolicy.scheduling.placement", "set topologyKey"},
        Case{"StorageOverTheHostLists", R"({"worker": {}, "storage": {"mountPath": "/etc/trainyard/x"}})", "spec.storage.mountPath",
             "choose another"},
        Case{"StorageRelative", R"({"worker": {}, "storage": {"mountPath": "out"}})", "spec.storage.mountPath", "absolute path"},
        Case{"ServeWithoutAClaim", R"({"worker": {}, "serve": {}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1}})",
             "spec.serve", "found no spec.storage.claimName"},
        Case{"ServeWithoutATraining", R"({"worker": {}, "serve": {}, "storage": {"claimName": "c"}})", "spec.serve",
             "found no spec.training"},
        Case{"ServeOfAnotherFramework",
             R"({"framework": "PyTorch", "image": "i", "worker": {}, "serve": {}, "storage": {"claimName": "c"}})", "spec.serve",
             "found framework PyTorch; remove it"},
        Case{
            "ServeOfABestThatIsNotKept",
            R"({"worker": {}, "serve": {"when": "best"}, "storage": {"claimName": "c"}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1}})",
            "spec.serve.when", "set spec.training.checkpoint.keepBest"},
        Case{
            "ServeOfCheckpointsBesideTheClaim",
            R"({"worker": {}, "serve": {}, "storage": {"claimName": "c", "mountPath": "/data"}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1, "checkpoint": {"dir": "/database/a"}}})",
            "spec.serve", "the checkpoints go to /database/a (spec.training.checkpoint.dir), expected a folder of the claim, below /data"},
        Case{
            "ServeOfCheckpointsAboveTheClaim",
            R"({"worker": {}, "serve": {}, "storage": {"claimName": "c"}, "training": {"model": {}, "data": {"format": "idx"}, "steps": 1, "checkpoint": {"dir": "../../a"}}})",
            "spec.serve", "expected a folder of the claim"},
        Case{"TemplatesRestartPolicy", R"({"worker": {"template": {"spec": {"restartPolicy": "Always"}}}})",
             "spec.worker.template.spec.restartPolicy", "remove it"},
        Case{"TemplateWithATypo", R"({"worker": {"template": {"specs": {}}}})", "spec.worker.template.specs", "did you mean \"spec\"?"},
        Case{"TemplateMetadataThatIsNoObject", R"({"worker": {"template": {"metadata": "x"}}})", "spec.worker.template.metadata",
             "found \"x\", expected an object"},
        Case{"TemplateMetadataWithATypo", R"({"worker": {"template": {"metadata": {"lables": {}}}}})",
             "spec.worker.template.metadata.lables", "did you mean \"labels\"?"},
        Case{"TemplateLabelsThatAreAList", R"({"worker": {"template": {"metadata": {"labels": ["a"]}}}})",
             "spec.worker.template.metadata.labels", "found [\"a\"], expected an object"},
        Case{"TemplateWithAName", R"({"worker": {"template": {"metadata": {"name": "mine"}}}})", "spec.worker.template.metadata.name",
             "the operator's to set"},
        Case{"TemplateWithOurLabel", R"({"worker": {"template": {"metadata": {"labels": {"trainyard.dev/role": "ps"}}}}})",
             "spec.worker.template.metadata.labels.trainyard.dev/role", "the operator's to set"},
        Case{"TemplateEnvThatIsAMap", R"({"worker": {"template": {"spec": {"containers": [{"env": {"LR": "0.1"}}]}}}})",
             "spec.worker.template.spec.containers[0].env", "found {\"LR\":\"0.1\"}, expected a list such as [{name: LR, value: \"0.1\"}]"},
        Case{"TemplateVolumesThatAreAMap", R"({"ps": {"template": {"spec": {"volumes": {"a": {}}}}}, "worker": {}})",
             "spec.ps.template.spec.volumes", "expected a list"},
        Case{"TemplateHostnameBesideOneService", R"({"worker": {"template": {"spec": {"hostname": "h"}}}})",
             "spec.worker.template.spec.hostname", "network.services Headless"},
        Case{"TemplateWithoutContainers", R"({"worker": {"template": {"spec": {"containers": []}}}})",
             "spec.worker.template.spec.containers", "leave it out"},
        Case{"TemplateEnvOfASecondContainer",
             R"({"worker": {"template": {"spec": {"containers": [{"name": "proxy"}, {"name": "trainer", "env": 3}]}}}})",
             "spec.worker.template.spec.containers[1].env", "found 3, expected a list"},
        Case{
            "TemplateWhoseDefaultContainerIsNotThere",
            R"({"worker": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/default-container": "mian"}}, "spec": {"containers": [{"name": "main"}]}}}})",
            "spec.worker.template.metadata.annotations.kubectl.kubernetes.io/default-container",
            "found mian, expected the name of a container of the template"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Validation, TheLongestChildNameMustFit) {
  json object = Object({{"worker", {{"replicas", 11}}}});
  object["metadata"]["name"] = std::string(54, 'a');
  EXPECT_THAT(DecodeJob({}, object)->problems,
              ElementsAre(Error("metadata.name", "has 64 characters, expected at most 63; choose a name that is 1 shorter")));
  object["spec"]["worker"]["replicas"] = 10;
  EXPECT_THAT(DecodeJob({}, object)->problems, IsEmpty());
  object["metadata"]["name"] = "1mnist.x";
  EXPECT_THAT(DecodeJob({}, object)->problems, ElementsAre(Error("metadata.name", "services are named after it")));
}

TEST(Validation, HostListsThatDoNotFitAConfigMapAreRefused) {
  json object = Object({{"worker", {{"replicas", 4096}}}});
  object["metadata"]["namespace"] = std::string(63, 'n');
  object["metadata"]["name"] = std::string(50, 'a');
  EXPECT_THAT(DecodeJob({}, object)->problems, ElementsAre(Error("spec.worker.replicas", "use fewer replicas or a shorter name")));
}

TEST(Schema, EveryFieldHasADescription) {
  const std::function<void(const json&, const std::string&)> visit = [&](const json& schema, const std::string& path) {
    EXPECT_TRUE(schema.contains("description")) << path;
    const json properties = schema.value("properties", json::object());
    for (const auto& [name, property] : properties.items()) visit(property, path + "." + name);
  };
  visit(TrainingJobSpecSchema(), "spec");
}

}  // namespace
}  // namespace trainyard::control
