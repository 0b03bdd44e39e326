#include "trainer/predict/trained_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/job/job_config.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {
namespace {

// A checkpoint whose training kept half of "own/rows.csv" for its evaluation.
class TrainedModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "trained_model_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(dir_ + "/own");
    std::filesystem::create_directories(dir_ + "/other");
    std::ofstream(dir_ + "/own/rows.csv") << "x,y\n1,0\n2,1\n3,2\n4,3\n";
    const auto training = ParseTrainingText(
        "model: {layers: [{dense: {units: 1}}], input: {shape: [1]}, loss: meanSquaredError}\n"
        "data: {format: csv, dir: " +
            dir_ +
            "/own, train: {files: [rows.csv]}, label: y, evalFraction: 0.5}\n"
            "batchSize: 2\nsteps: 5\n",
        "training.yaml");
    ASSERT_TRUE(training.ok()) << training.status();
    const ParameterSet parameters(*ParameterSpecsOf(training->model));
    CheckpointShard shard{.name = "parameters", .tensors = {}};
    AppendTensors(parameters, "", shard.tensors);
    CheckpointInfo info{.step = 5, .position = {}, .fingerprint = parameters.Fingerprint(), .model = training->model.name};
    info.description = *DescriptionJson(*DescribeModel(*training, ""));
    ASSERT_TRUE(CheckpointStore(dir_ + "/run", 1).Save(info, std::vector{std::move(shard)}).ok());
  }

  // The evaluation's share of the rows; 0: all of them are evaluated.
  double FractionOf(const std::string& data, std::vector<std::string> overrides = {}) {
    const auto model = LoadTrainedModel({.path = dir_ + "/run", .job = "", .overrides = std::move(overrides), .data = data});
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? model->description.training.data.eval_fraction : -1;
  }

  std::string dir_;
};

TEST_F(TrainedModelTest, AnotherFolderThanTheTrainingsIsEvaluatedWhole) {
  EXPECT_EQ(FractionOf(""), 0.5);
  EXPECT_EQ(FractionOf(dir_ + "/own"), 0.5);
  EXPECT_EQ(FractionOf(dir_ + "/other/../own/"), 0.5);
  EXPECT_EQ(FractionOf(dir_ + "/other"), 0);
}

TEST_F(TrainedModelTest, AnOverrideChoosesAPartOfAnyFolder) {
  EXPECT_EQ(FractionOf(dir_ + "/other", {"training.data.evalFraction=0.25"}), 0.25);
}

TEST_F(TrainedModelTest, AFileIsEvaluatedWholeUnlessTheTrainingEvaluatesIt) {
  std::ofstream(dir_ + "/own/more.csv") << "x,y\n1,0\n";
  EXPECT_EQ(FractionOf(dir_ + "/own/rows.csv"), 0.5);
  EXPECT_EQ(FractionOf(dir_ + "/own/more.csv"), 0);
  EXPECT_EQ(FractionOf(dir_ + "/own/more.csv", {"training.data.evalFraction=0.25"}), 0.25);
  const auto model = LoadTrainedModel({.path = dir_ + "/run", .job = "", .overrides = {}, .data = dir_ + "/own/more.csv"});
  ASSERT_TRUE(model.ok()) << model.status();
  const DataConfig& data = model->description.training.data;
  EXPECT_EQ(data.dir, dir_ + "/own");
  EXPECT_EQ(data.eval->files, std::vector<std::string>{"more.csv"});
  EXPECT_EQ(data.train.files, std::vector<std::string>{"rows.csv"});
}

}  // namespace
}  // namespace trainyard::engine
