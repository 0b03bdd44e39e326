#include "trainer/checkpoint/old_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/job/job_config.h"
#include "trainer/job/output_folders.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {
namespace {

TrainingConfig Dense(int64_t units) {
  const auto config = ParseTrainingText("model: {input: {shape: [10]}, layers: [{dense: {units: " + std::to_string(units) +
                                            "}}], loss: meanSquaredError}\n"
                                            "data: {format: synthetic, train: {examples: 8}}\nsteps: 1\n",
                                        "t.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

TEST(OldCheckpoint, OneOfAnotherModelIsNamedWithBothModels) {
  const std::string output = testing::TempDir() + "/old-checkpoint";
  const TrainingConfig config = Dense(1);
  EXPECT_TRUE(CheckOldCheckpoint(output, config).ok()) << "where there is none";
  CheckpointStore checkpoints(CheckpointFolder(output, config), /*keep=*/2);
  ASSERT_TRUE(checkpoints.Save({.step = 7, .fingerprint = FingerprintOf(*ParameterSpecsOf(Dense(2).model)), .model = "old"}, {}).ok());
  const absl::Status status = CheckOldCheckpoint(output, config);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("step-7 is of model 'old'"));
  ASSERT_TRUE(checkpoints.Save({.step = 8, .fingerprint = FingerprintOf(*ParameterSpecsOf(config.model)), .model = "this"}, {}).ok());
  EXPECT_TRUE(CheckOldCheckpoint(output, config).ok());
}

}  // namespace
}  // namespace trainyard::engine
