#include "trainer/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "trainer/base/file.h"
#include "trainer/report/report_json.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

UsageRecord Usage() {
  return {.cpu_seconds = 3, .cpu_cores = 1.5, .max_rss_bytes = 1000, .points = {{.seconds = 1, .cpu_cores = 2, .resident_bytes = 900}}};
}

ReplicaReport Chief() {
  ReplicaReport report{.role = "worker", .index = 0, .chief = true, .model = "lenet5", .strategy = "parameterServer async"};
  report.worker = {.index = 0,
                   .batches = 100,
                   .examples = 12800,
                   .seconds = 2,
                   .input_seconds = 0.1,
                   .input_stages = {{"read", 0.25}},
                   .usage = Usage()};
  report.staleness = {.mean = 1, .max = 2};
  report.batch_size = 128;
  report.epochs = 8;
  report.steps = 300;
  report.eval = {{"accuracy", 0.97}, {"loss", 0.1}};
  report.history = {{.epoch = 0, .step = 70, .loss = 0.5, .seconds = 1, .eval = {{"accuracy", 0.9}}}};
  report.restarts = {{.replica = "worker-0", .reason = "resumed from step 100", .step = 100, .lost_steps = 12}};
  report.unit = {.name = "words", .per_example = 30};
  report.parameters_sha256 = "abc";
  return report;
}

ReplicaReport OtherWorker() {
  ReplicaReport report{.role = "worker", .index = 1};
  report.worker = {.index = 1, .batches = 300, .examples = 38400, .seconds = 3};
  report.staleness = {.mean = 3, .max = 5};
  return report;
}

ReplicaReport Server() {
  ReplicaReport report{.role = "ps", .index = 0};
  report.server = {.index = 0, .bytes = 4096, .keys = 8, .usage = {.max_rss_bytes = 500}};
  return report;
}

JobOutcome Outcome() { return {.job = "digits", .state = "Succeeded", .workers = 2, .ps = 1, .seconds = 12.5}; }

TEST(Report, HoldsTheDocumentedFieldsInTheirOrder) {
  const auto report = nlohmann::ordered_json::parse(MergeReport(Outcome(), {Server(), Chief(), OtherWorker()}));
  std::vector<std::string> names;
  for (const auto& [name, value] : report.items()) names.push_back(name);
  EXPECT_THAT(
      names, ElementsAre("job", "state", "model", "strategy", "workers", "ps", "batchSize", "devices", "precision", "kernels", "computedOn",
                         "computedOnReason", "epochs", "plannedEpochs", "steps", "plannedSteps", "seconds", "batchesPerSecond",
                         "examplesPerSecond", "unit", "unitsPerSecond", "eval", "history", "perWorker", "perServer", "staleness",
                         "failures", "restarts", "redone", "stragglers", "parametersSha256", "version", "cpu"));
}

TEST(Report, AnAllReduceSaysHowItAddsAndWhoKeepsWhichSlots) {
  ReplicaReport chief = Chief();
  chief.worker->slot_bytes = 512;
  chief.all_reduce = AllReduceRecord{.algorithm = "direct up to 64 KiB, halvingDoubling above", .latency_seconds = 4e-5};
  const json report = json::parse(MergeReport(Outcome(), {*ParseReplicaReport(ReplicaReportJson(chief), "chief")}));
  EXPECT_EQ(report["allReduce"], json::parse(R"({"algorithm": "direct up to 64 KiB, halvingDoubling above", "latencySeconds": 4e-5})"));
  EXPECT_EQ(report["perWorker"][0]["slotBytes"], 512);
}

TEST(Report, AWorkerThatComputedOnGpusHasThem) {
  ReplicaReport chief = Chief();
  chief.computed_on = "cuda:1";
  chief.computed_on_reason = "2 GPUs are visible";
  chief.worker->gpus = {{.gpu = 1, .name = "A", .memory_total_bytes = 80, .max_memory_used_bytes = 30, .utilization = 0.75}};
  const json report = json::parse(MergeReport(Outcome(), {*ParseReplicaReport(ReplicaReportJson(chief), "chief"), OtherWorker()}));
  EXPECT_EQ(report["computedOn"], "cuda:1");
  EXPECT_EQ(report["computedOnReason"], "2 GPUs are visible");
  EXPECT_EQ(report["perWorker"][0]["gpus"],
            json::parse(R"([{"gpu": 1, "name": "A", "memoryTotalBytes": 80, "maxMemoryUsedBytes": 30, "utilization": 0.75}])"));
  EXPECT_FALSE(report["perWorker"][1].contains("gpus"));
}

TEST(Report, StragglersAreTheChiefs) {
  ReplicaReport chief = Chief();
  chief.stragglers = {{.replica = "worker-1", .node = "b", .from = 7, .to = 9, .step_seconds = 0.5, .median_seconds = 0.25},
                      {.replica = "worker-1", .node = "b", .from = 12, .to = std::nullopt, .step_seconds = 0.75, .median_seconds = 0.25}};
  const json report = json::parse(MergeReport(Outcome(), {OtherWorker(), chief}));
  EXPECT_EQ(report["stragglers"], json::parse(R"([
    {"replica": "worker-1", "node": "b", "from": 7, "to": 9, "stepSeconds": 0.5, "medianSeconds": 0.25},
    {"replica": "worker-1", "node": "b", "from": 12, "stepSeconds": 0.75, "medianSeconds": 0.25}])"));
}

TEST(Report, AnEvaluatorHasItsBestAndItsLastEvaluation) {
  ReplicaReport evaluator{.role = "evaluator", .index = 0};
  evaluator.evaluator = EvaluatorRecord{.index = 0,
                                        .evaluations = 2,
                                        .metric = "loss",
                                        .best = ScoreRecord{.step = 10, .epoch = 1, .metrics = {{"loss", 0.5}}, .seconds = 1.5},
                                        .last = ScoreRecord{.step = 20, .epoch = 2, .metrics = {{"loss", 0.7}}, .seconds = {}}};
  const json report = json::parse(MergeReport(Outcome(), {*ParseReplicaReport(ReplicaReportJson(evaluator), "evaluator"), Chief()}));
  EXPECT_EQ(report["evaluator"], json::parse(R"({"index": 0, "evaluations": 2, "metric": "loss",
    "best": {"step": 10, "epoch": 1, "metrics": {"loss": 0.5}, "seconds": 1.5},
    "last": {"step": 20, "epoch": 2, "metrics": {"loss": 0.7}}})"));
  EXPECT_FALSE(json::parse(MergeReport(Outcome(), {Chief()})).contains("evaluator"));
}

TEST(Report, SpeedsAreTotalsOverTheWorkers) {
  const json report = json::parse(MergeReport(Outcome(), {Server(), Chief(), OtherWorker()}));
  EXPECT_EQ(report["batchesPerSecond"], 150.0);
  EXPECT_EQ(report["examplesPerSecond"], 19200.0);
  EXPECT_EQ(report["unit"], "words");
  EXPECT_EQ(report["unitsPerSecond"], 576000.0) << "30 words an example";
  EXPECT_EQ(report["seconds"], 12.5);
  EXPECT_EQ(report["perWorker"].size(), 2);
  EXPECT_EQ(report["perWorker"][0]["inputSeconds"], 0.1);
  EXPECT_EQ(report["perServer"][0]["keys"], 8);
}

TEST(Report, EachReplicasProcessorAndMemoryUseIsThere) {
  const json report = json::parse(MergeReport(Outcome(), {Server(), Chief(), OtherWorker()}));
  const json& worker = report["perWorker"][0];
  EXPECT_EQ(worker["cpuSeconds"], 3.0);
  EXPECT_EQ(worker["cpuCores"], 1.5);
  EXPECT_EQ(worker["maxRssBytes"], 1000);
  EXPECT_EQ(worker["usage"], json::parse(R"([{"seconds": 1.0, "cpuCores": 2.0, "residentBytes": 900}])"));
  EXPECT_EQ(report["perServer"][0]["maxRssBytes"], 500);
}

TEST(Report, WhatWasProfiledComesLast) {
  JobOutcome outcome = Outcome();
  outcome.profile = OperatorTable{.steps = {.begin = 3, .end = 4}};
  const json report = json::parse(MergeReport(outcome, {Chief()}));
  EXPECT_EQ(report["profile"]["steps"], json({3, 4}));
}

TEST(Report, TheJobsFieldsAreTheChiefs) {
  const json report = json::parse(MergeReport(Outcome(), {Server(), Chief(), OtherWorker()}));
  EXPECT_EQ(report["model"], "lenet5");
  EXPECT_EQ(report["steps"], 300);
  EXPECT_EQ(report["eval"]["accuracy"], 0.97);
  EXPECT_EQ(report["history"][0]["eval"]["accuracy"], 0.9);
  EXPECT_EQ(report["parametersSha256"], "abc");
}

TEST(Report, StalenessIsWeightedByPushes) {
  const json report = json::parse(MergeReport(Outcome(), {Chief(), OtherWorker()}));
  EXPECT_EQ(report["staleness"]["mean"], 2.5);
  EXPECT_EQ(report["staleness"]["max"], 5);
}

TEST(Report, FailuresAndRestartsOfLauncherAndReplicasAreTold) {
  JobOutcome outcome = Outcome();
  outcome.failures = {{"worker-1", "killed by signal 9"}};
  outcome.restarts = {{.replica = "worker-1", .reason = "killed by signal 9", .step = 40}};
  const json report = json::parse(MergeReport(outcome, {Chief()}));
  EXPECT_EQ(report["failures"][0]["reason"], "killed by signal 9");
  EXPECT_EQ(report["restarts"].size(), 2);
  EXPECT_EQ(report["restarts"][1]["lostSteps"], 12);
}

TEST(Report, StepsThatTheChiefDidNotReportAreThoseThatOthersKnow) {
  JobOutcome outcome = Outcome();
  outcome.steps = 812;
  outcome.planned_steps = 1410;
  outcome.planned_epochs = 10;
  const json report = json::parse(MergeReport(outcome, {OtherWorker()}));
  EXPECT_EQ(report["steps"], 812);
  EXPECT_EQ(report["plannedSteps"], 1410);
  EXPECT_EQ(report["plannedEpochs"], 10);
  const json of_chief = json::parse(MergeReport(outcome, {Chief()}));
  EXPECT_EQ(of_chief["steps"], 812) << "a later process of the chief was killed";
  EXPECT_EQ(of_chief["plannedSteps"], Chief().planned_steps);
}

TEST(Report, ALaunchThatWentOnNamesItsFirstStep) {
  JobOutcome outcome;
  EXPECT_FALSE(json::parse(MergeReport(outcome, {Chief()})).contains("firstStep"));
  outcome.first_step = 423;
  EXPECT_EQ(json::parse(MergeReport(outcome, {Chief()}))["firstStep"], 423);
}

TEST(Report, AJobThatFailedBeforeAnyReplicaReportedStillHasAReport) {
  JobOutcome outcome = Outcome();
  outcome.state = "Failed";
  const json report = json::parse(MergeReport(outcome, {}));
  EXPECT_EQ(report["state"], "Failed");
  EXPECT_EQ(report["examplesPerSecond"], 0.0);
  EXPECT_TRUE(report["perWorker"].empty());
}

class ReportFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "report_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
  }
  std::string dir_;
};

TEST_F(ReportFilesTest, PartsComeBackAsTheyWereWritten) {
  for (const ReplicaReport& report : {Chief(), OtherWorker(), Server()}) ASSERT_TRUE(WriteReplicaReport(dir_, report).ok());
  auto parts = ReadReplicaReports(dir_);
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), 3);
  EXPECT_EQ(MergeReport(Outcome(), *parts), MergeReport(Outcome(), {Server(), Chief(), OtherWorker()}));
}

TEST(Report, APartOfTooManyLevelsIsRefused) {
  json part = json::parse(ReplicaReportJson(Server()));
  part["more"] = json::parse(std::string(64, '[') + std::string(64, ']'));
  EXPECT_THAT(std::string(ParseReplicaReport(part.dump(), "p").status().message()),
              HasSubstr("p is not a replica's report: no JSON of at most 64 levels"));
}

TEST(Report, APartWithACountBeyondTheRangeIsRefused) {
  const json part = json::parse(ReplicaReportJson(Server()));
  for (const char* const place : {"/server/bytes", "/index"}) {
    json bad = part;
    bad[json::json_pointer(place)] = 1e300;
    EXPECT_THAT(std::string(ParseReplicaReport(bad.dump(), "p").status().message()), HasSubstr("type must be a whole number")) << place;
  }
}

TEST_F(ReportFilesTest, ALossThatIsNotANumberSurvives) {
  ReplicaReport chief = Chief();
  chief.history[0].loss = std::numeric_limits<double>::quiet_NaN();
  chief.eval["loss"] = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(WriteReplicaReport(dir_, chief).ok());
  auto parts = ReadReplicaReports(dir_);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_TRUE(std::isnan(parts->at(0).history[0].loss));
  EXPECT_TRUE(std::isnan(parts->at(0).eval["loss"]));
  EXPECT_TRUE(json::parse(MergeReport(Outcome(), *parts))["history"][0]["loss"].is_null());
}

TEST_F(ReportFilesTest, WithoutAFolderThereAreNoParts) {
  auto parts = ReadReplicaReports(dir_);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_TRUE(parts->empty());
}

TEST_F(ReportFilesTest, APartThatIsNotAReportIsNamed) {
  ASSERT_TRUE(WriteReplicaReport(dir_, Server()).ok());
  ASSERT_TRUE(WriteFileDurably(ReplicaReportPath(dir_, "worker", 0), R"({"role": "worker"})").ok());
  EXPECT_THAT(std::string(ReadReplicaReports(dir_).status().message()), HasSubstr("replicas/worker-0.json is not a replica's report"));
}

TEST_F(ReportFilesTest, TheWholeReportIsWritten) {
  ASSERT_TRUE(WriteReport(dir_, Outcome(), {Chief()}).ok());
  EXPECT_EQ(json::parse(*ReadFile(dir_ + "/report.json"))["job"], "digits");
}

TEST(OutcomeOf, PartsWithoutALauncherTellWhetherTheJobIsDone) {
  ReplicaReport chief = Chief();
  chief.planned_steps = 300;
  const JobOutcome done = OutcomeOf("digits", {Server(), chief, OtherWorker()}, std::nullopt);
  EXPECT_EQ(done.state, "Succeeded");
  EXPECT_EQ(done.workers, 2);
  EXPECT_EQ(done.ps, 1);
  EXPECT_EQ(done.seconds, 3);
  chief.planned_steps = 400;
  EXPECT_EQ(OutcomeOf("digits", {chief}, std::nullopt).state, "Stopped");
  chief.stopped_early = EarlyStopRecord{.reason = "no improvement", .step = 300};
  EXPECT_EQ(OutcomeOf("digits", {chief}, std::nullopt).state, "Succeeded");
}

}  // namespace
}  // namespace trainyard::engine
