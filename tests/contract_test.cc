// docs/contract.md, held against both halves: the trainer reads what the operator writes, and the
// other way round.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "operator/api/progress_json.h"
#include "operator/api/validation.h"
#include "operator/api/yaml.h"
#include "operator/children/config_builder.h"
#include "operator/children/pod_builder.h"
#include "trainer/base/clock.h"
#include "trainer/job/job_config.h"
#include "trainer/job/replica_identity.h"
#include "trainer/report/progress_server.h"
#include "trainer/report/recorder.h"

namespace trainyard {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

control::TrainingJob Job(const json& spec) {
  return *control::DecodeJob({}, {{"metadata", {{"name", "mnist"}, {"namespace", "ns"}, {"uid", "u"}}}, {"spec", spec}});
}

// A pod's view: the ConfigMap's files in a folder, and the environment of container 0.
class Mounted {
 public:
  Mounted(const control::TrainingJob& job, const control::ReplicaId& id)
      : folder_(std::filesystem::path(testing::TempDir()) / "contract" / testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const json data = control::BuildConfigData(job, 3, "");
    for (const auto& [name, text] : data.items()) std::ofstream(folder_ / name) << text.get<std::string>();
    const json pod = control::BuildPod(job, id);
    const json fields = {{"spec.nodeName", "node-7"}};  // that the kubelet fills in
    for (const json& variable : pod["spec"]["containers"][0]["env"]) {
      const bool given = variable.contains("value");
      environment_[variable["name"]] =
          given ? variable["value"] : fields.at(variable["valueFrom"]["fieldRef"]["fieldPath"].get<std::string>());
    }
    EXPECT_EQ(environment_["TRAINYARD_CONFIG_DIR"], "/etc/trainyard");
    environment_["TRAINYARD_CONFIG_DIR"] = folder_;
  }
  absl::StatusOr<engine::ReplicaIdentity> Identity() const {
    return engine::ReadReplicaIdentity({}, [this](const char* name) {
      const auto it = environment_.find(name);
      return it == environment_.end() ? nullptr : it->second.c_str();
    });
  }

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> environment_;
};

const json kTraining =
    json::parse(R"({"model": {"preset": "lenet5"}, "data": {"format": "synthetic", "train": {"examples": 64}}, "steps": 5, "batchSize": 16,
                                       "strategy": {"parameterServer": {"mode": "async"}}})");

TEST(Contract, ATrainerInAPodKnowsWhoItIsAndWhereTheOthersAre) {
  const control::TrainingJob job = Job({{"ps", {{"replicas", 2}}}, {"worker", {{"replicas", 12}}}, {"training", kTraining}});
  ASSERT_THAT(job.problems, IsEmpty());
  const auto worker = Mounted(job, {control::Role::kWorker, 11}).Identity();
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->role, engine::Role::kWorker);
  EXPECT_EQ(worker->index, 11);
  EXPECT_EQ(worker->epoch, 3);
  EXPECT_THAT(worker->ps_hosts, ElementsAre("mnist-ps-0.mnist.ns.svc:5000", "mnist-ps-1.mnist.ns.svc:5000"));
  ASSERT_EQ(worker->worker_hosts.size(), 12U);
  EXPECT_EQ(worker->worker_hosts[11], "mnist-worker-11.mnist.ns.svc:5000");
  EXPECT_FALSE(worker->is_chief());
  EXPECT_EQ(worker->trainer_rank(), 11);
  EXPECT_EQ(worker->trainer_count(), 12);
  EXPECT_EQ(worker->node, "node-7");

  const auto server = Mounted(job, {control::Role::kPs, 1}).Identity();
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(server->role, engine::Role::kPs);
  EXPECT_EQ(server->index, 1);

  const auto chief = Mounted(job, {control::Role::kWorker, 0}).Identity();
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_TRUE(chief->is_chief());
}

TEST(Contract, AChiefOfItsOwnIsTheFirstTrainerForBothHalves) {
  const control::TrainingJob job =
      Job({{"chief", json::object()}, {"ps", json::object()}, {"worker", {{"replicas", 2}}}, {"training", kTraining}});
  const auto chief = Mounted(job, {control::Role::kChief, 0}).Identity();
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_TRUE(chief->is_chief());
  EXPECT_EQ(chief->chief_host, "mnist-chief-0.mnist.ns.svc:5000");
  const auto worker = Mounted(job, {control::Role::kWorker, 0}).Identity();
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_FALSE(worker->is_chief());
  EXPECT_EQ(worker->trainer_rank(), 1);
  EXPECT_EQ(worker->trainer_count(), 3);
  EXPECT_EQ(control::ChiefOf(job), (control::ReplicaId{control::Role::kChief, 0}));
}

TEST(Contract, AnEvaluatorIsInNoListButTheChiefKnowsThatThereIsOne) {
  const control::TrainingJob job =
      Job({{"ps", json::object()}, {"worker", json::object()}, {"evaluator", json::object()}, {"training", kTraining}});
  const auto evaluator = Mounted(job, {control::Role::kEvaluator, 0}).Identity();
  ASSERT_TRUE(evaluator.ok()) << evaluator.status();
  EXPECT_EQ(evaluator->role, engine::Role::kEvaluator);
  EXPECT_FALSE(evaluator->is_chief());
  const auto chief = Mounted(job, {control::Role::kWorker, 0}).Identity();
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_TRUE(chief->is_chief());
  EXPECT_EQ(chief->evaluators, 1);
  EXPECT_EQ(chief->trainer_count(), 1);
  const control::TrainingJob without = Job({{"ps", json::object()}, {"worker", json::object()}, {"training", kTraining}});
  EXPECT_EQ(Mounted(without, {control::Role::kWorker, 0}).Identity()->evaluators, 0);
}

TEST(Contract, TheTrainerReadsTheTrainingThatTheOperatorCarries) {
  const control::TrainingJob job = Job({{"ps", json::object()}, {"worker", json::object()}, {"training", kTraining}});
  const auto identity = Mounted(job, {control::Role::kWorker, 0}).Identity();
  ASSERT_TRUE(identity.ok()) << identity.status();
  const auto training = engine::ReadTrainingFile(identity->config_path);
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ(training->steps, 5);
  EXPECT_EQ(training->batch_size, 16);
  EXPECT_EQ(training->strategy.mode, engine::StrategyConfig::Mode::kAsync);
}

TEST(Contract, TheOperatorReadsTheProgressThatTheTrainerTells) {
  engine::Progress told;
  told.step = 120;
  told.total_steps = 480;
  told.epoch = 2;
  told.loss = 0.25;
  told.metrics["accuracy"] = 0.93;
  told.batches_per_second = 50;
  told.examples_per_second = 6400;
  told.eta = absl::Seconds(7);
  told.last_checkpoint_step = 100;
  told.best_checkpoint_step = 80;
  told.stopped_early = "loss has not improved";
  const auto read = control::ParseProgress(engine::ProgressJson(told));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->step, 120);
  EXPECT_EQ(read->total_steps, 480);
  EXPECT_EQ(read->epoch, 2);
  EXPECT_EQ(read->percent, 25);
  EXPECT_EQ(read->loss, 0.25);
  EXPECT_EQ(read->metrics.at("accuracy"), 0.93);
  EXPECT_EQ(read->batches_per_second, 50);
  EXPECT_EQ(read->examples_per_second, 6400);
  EXPECT_EQ(read->eta_seconds, 7);
  EXPECT_EQ(read->last_checkpoint_step, 100);
  EXPECT_EQ(read->best_checkpoint_step, 80);
  EXPECT_EQ(read->stopped_early, "loss has not improved");
}

TEST(Contract, TheChiefsTerminationMessageHoldsItsFinalStepAndEvaluation) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "termination_message";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string log = folder / "termination-log";
  std::ofstream(log) << "";
  engine::RecorderOptions options;
  options.output = folder;
  options.termination_log = log;
  auto recorder = engine::Recorder::Create(options, engine::RealClock());
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  (*recorder)->OnStart(0, 40);
  ASSERT_TRUE((*recorder)->OnEpoch(0, 40, {{"accuracy", 0.97}}, engine::ParameterSet()).ok());
  engine::ReplicaReport report;
  report.steps = 40;
  ASSERT_TRUE((*recorder)->Finish(report, 0, 0).ok());
  const std::string message = Read(log);
  EXPECT_LE(message.size(), 2048U) << "the kubelet keeps 4 KiB for all containers of a pod";
  const auto progress = control::ParseProgress(message);
  ASSERT_TRUE(progress) << message;
  EXPECT_EQ(progress->step, 40);
  EXPECT_EQ(progress->metrics.at("accuracy"), 0.97);
}

TEST(Contract, EveryExampleMakesSenseToBothHalves) {
  int examples = 0;
  const std::string page = Read("examples/README.md");
  for (const auto& entry : std::filesystem::directory_iterator("examples")) {
    if (entry.path().extension() != ".yaml") continue;
    ++examples;
    const std::string text = Read(entry.path());
    const auto object = control::YamlToJson(text);
    ASSERT_TRUE(object.ok()) << entry.path() << ": " << object.status();
    const auto job = control::DecodeJob({}, *object);
    ASSERT_TRUE(job.ok()) << entry.path() << ": " << job.status();
    EXPECT_THAT(job->problems, IsEmpty()) << entry.path() << ": " << control::Describe(job->problems);
    EXPECT_THAT(job->unknown, IsEmpty()) << entry.path() << ": " << control::Describe(job->unknown);
    const auto config = engine::ReadJobFile(entry.path());
    EXPECT_TRUE(config.ok()) << config.status();
    EXPECT_NE(page.find("(" + entry.path().filename().string() + ")"), std::string::npos)
        << "examples/README.md says nothing of " << entry.path();
  }
  EXPECT_GT(examples, 0);
}

}  // namespace
}  // namespace trainyard
