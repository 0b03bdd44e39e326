#include "trainer/job/check_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "trainer/job/job_config.h"

namespace trainyard::engine {
namespace {

// A dense layer of units x 1000 weights without a bias.
TrainingConfig Dense(int64_t units, const std::string& optimizer) {
  const auto config = ParseTrainingText("model: {input: {shape: [1000]}, layers: [{dense: {units: " + std::to_string(units) +
                                            ", useBias: false}}], loss: meanSquaredError}\n"
                                            "data: {format: synthetic, train: {examples: 8}}\nsteps: 1\noptimizer: {name: " +
                                            optimizer + "}\n",
                                        "t.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

TEST(CheckOutput, ACheckpointHasParametersAndTheOptimizersSlots) {
  EXPECT_EQ(*CheckpointBytes(Dense(10, "sgd")), 40'000);
  EXPECT_EQ(*CheckpointBytes(Dense(10, "momentum")), 80'000);
  EXPECT_EQ(*CheckpointBytes(Dense(10, "adam")), 120'000);
}

TEST(CheckOutput, ASmallModelHasRoomAlsoWhereTheFolderIsNotThereYet) {
  EXPECT_TRUE(CheckOutput(testing::TempDir() + "/not/there/yet", Dense(10, "sgd")).ok());
  EXPECT_TRUE(CheckOutput("relative-not-there", Dense(10, "sgd")).ok());
}

TEST(CheckOutput, AFileInThePlaceOfAFolderIsNamed) {
  const std::string file = testing::TempDir() + "check_output_file";
  std::ofstream(file) << "x";
  for (const std::string& output : {file, file + "/below"}) {
    EXPECT_EQ(CheckOutput(output, Dense(10, "sgd")).message(),
              "output folder '" + output + "' cannot be made: " + file + " is no folder; choose another --output");
  }
}

TEST(CheckOutput, AModelThatTheDiskDoesNotHoldIsRefusedWithWhatIsFreeAndNeeded) {
  std::string layers;
  for (int i = 0; i < 500; ++i) layers += std::string(i == 0 ? "" : ", ") + "{dense: {units: 40000, useBias: false}}";  // 9.6 TB with adam
  const auto config = ParseTrainingText("model: {input: {shape: [40000]}, layers: [" + layers +
                                            "], loss: meanSquaredError}\n"
                                            "data: {format: synthetic, train: {examples: 8}}\nsteps: 1\noptimizer: {name: adam}\n",
                                        "t.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  const absl::Status status = CheckOutput(testing::TempDir(), *config);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("checkpoints: its disk has"), testing::HasSubstr("needs 9.60 TB")));
}

}  // namespace
}  // namespace trainyard::engine
