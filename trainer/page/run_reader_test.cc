#include "trainer/page/run_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/base/file.h"
#include "trainer/page/page_html.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr const char* kTraining =
    R"({"model": {"preset": "lenet5"}, "data": {"format": "synthetic", "train": {"examples": 64}}, "batchSize": 8,
  "steps": 1000, "optimizer": {"name": "sgd", "learningRate": 0.5, "schedule": {"name": "cosine", "decaySteps": 1000}}, "strategy": {"local": {}}})";

class RunReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(dir_);
    fs::create_directories(dir_ + "/config");
  }
  void TearDown() override { fs::remove_all(dir_); }
  void Write(const std::string& name, const std::string& text) { ASSERT_TRUE(ReplaceFile(dir_ + "/" + name, text).ok()); }
  void Write(const std::string& name, const ordered_json& value) { Write(name, value.dump()); }

  const std::string dir_ = ::testing::TempDir() + "/run_reader";
};

TEST_F(RunReaderTest, AFolderWithoutARunIsNotFound) {
  const auto run = RunReader(dir_).Read();
  EXPECT_TRUE(absl::IsNotFound(run.status()));
  EXPECT_THAT(std::string(run.status().message()), HasSubstr(dir_ + " is no output folder of a run"));
}

TEST_F(RunReaderTest, ADamagedReportIsNamed) {
  Write("report.json", std::string("{\"job\": "));
  const auto run = RunReader(dir_).Read();
  EXPECT_TRUE(absl::IsDataLoss(run.status()));
  EXPECT_THAT(std::string(run.status().message()), HasSubstr(dir_ + "/report.json holds no JSON object"));
}

TEST_F(RunReaderTest, AReportOfOtherTypesIsDamagedToo) {
  Write("report.json", std::string(R"({"job": 7, "steps": "many", "history": 3, "perWorker": {"0": 1}})"));
  EXPECT_TRUE(absl::IsDataLoss(RunReader(dir_).Read().status()));
  Write("report.json", std::string(R"({"job": "digits", "history": [{"step": 1e300, "epoch": 0, "eval": {"loss": 1}}]})"));
  EXPECT_TRUE(absl::IsDataLoss(RunReader(dir_).Read().status())) << "a step beyond the range";
}

TEST_F(RunReaderTest, FollowsTheScheduleOfTheLearningRate) {
  Write("config/training.json", std::string(kTraining));
  Write("report.json", ordered_json{{"job", "digits"}, {"steps", 1000}});
  const auto run = RunReader(dir_).Read();
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ((*run)["name"], "digits");
  const ordered_json& points = (*run)["curves"]["learningRate"][0]["points"];
  EXPECT_EQ(points.front(), ordered_json::array({0, 0.5}));
  EXPECT_EQ(points.back()[0], 1000);
  EXPECT_LT(points.back()[1], 1e-6);
}

TEST_F(RunReaderTest, ATrainingUnderWayHasItsPlannedLearningRateAndItsSettings) {
  Write("config/training.json", std::string(kTraining));
  const auto run = RunReader(dir_).Read(/*planned_steps=*/500);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE(run->contains("report"));
  EXPECT_EQ((*run)["curves"]["learningRate"][0]["points"].back()[0], 500);
  EXPECT_EQ((*run)["settings"][0], ordered_json::array({"model.preset", "lenet5"}));
}

TEST_F(RunReaderTest, TakesEvaluationsFromTheReportAndFromTheLogOnce) {
  Write("report.json", ordered_json{{"job", "digits"}, {"history", {{{"epoch", 0}, {"step", 10}, {"eval", {{"accuracy", 0.5}}}}}}});
  fs::create_directories(dir_ + "/checkpoints");
  Write("checkpoints/evaluations.json",
        std::string(R"({"evaluations": [{"step": 5, "epoch": 0, "metrics": {"accuracy": 0.25}, "checkpoint": ""},
      {"step": 10, "epoch": 0, "metrics": {"accuracy": 0.5}, "checkpoint": ""}]})"));
  const auto run = RunReader(dir_).Read();
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)["evaluations"].size(), 2U);
  EXPECT_EQ((*run)["evaluations"][0]["metrics"]["accuracy"], 0.25);
  EXPECT_EQ((*run)["evaluations"][1]["step"], 10);
}

TEST_F(RunReaderTest, ThePageOfManyWorkersAndEpochsIsBounded) {
  ordered_json report = {{"job", "digits"}, {"steps", 1'000'000}};
  for (int i = 0; i < 200; ++i) {
    ordered_json usage = ordered_json::array();
    for (int j = 0; j < 128; ++j) usage.push_back({{"seconds", j + 0.123456789}, {"cpuCores", 0.987654321}, {"residentBytes", 123456789}});
    report["perWorker"].push_back({{"index", i}, {"usage", usage}});
    report["failures"].push_back({{"replica", "worker-1"}, {"reason", std::string(100, 'x')}});
  }
  for (int i = 0; i < 10'000; ++i)
    report["history"].push_back({{"epoch", i}, {"step", 10 * i}, {"loss", 0.5}, {"eval", {{"accuracy", 0.5}}}});
  Write("report.json", report);
  ASSERT_TRUE(WriteReportPage(dir_).ok());
  EXPECT_LT(fs::file_size(dir_ + "/report.html"), size_t{600'000});
  const auto run = RunReader(dir_).Read();
  EXPECT_EQ((*run)["report"]["leftOut"]["perWorker"], 200 - static_cast<int>(kMostPageReplicas));
  EXPECT_LE((*run)["evaluations"].size(), kMostPagePoints + 1);
  EXPECT_EQ((*run)["report"]["history"].back()["epoch"], 9'999);  // evenly thinned, to its end
}

}  // namespace
}  // namespace trainyard::engine
