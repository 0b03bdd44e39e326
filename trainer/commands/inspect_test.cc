#include "trainer/commands/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/backend/reference/reference_backend.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST(InspectTest, AJobsGraphIsToldWithNodesParametersAndTotals) {
  const auto backend = MakeReferenceBackend();
  const auto text = Inspect("examples/lenet5-ps.yaml", {}, *backend);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("model lenet5: input [28, 28, 1], batch 32, softmaxCrossEntropy"));
  EXPECT_THAT(*text, HasSubstr("Conv2d 5x5 stride 1x1 valid + bias + max-pool"));
  EXPECT_THAT(*text, HasSubstr("dense1/kernel"));
  EXPECT_THAT(*text, HasSubstr("[800, 500]"));
}

TEST(InspectTest, OverridesChangeWhatIsInspected) {
  const auto backend = MakeReferenceBackend();
  const std::vector<std::string> overrides{"spec.training.batchSize=7", "spec.training.model={preset: linear}"};
  const auto text = Inspect("examples/lenet5-ps.yaml", overrides, *backend);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("model linear: input [10], batch 7, meanSquaredError"));
}

TEST(InspectTest, ABatchThatThisMachineHasNoMemoryForIsTold) {
  const auto backend = MakeReferenceBackend();
  const std::vector<std::string> overrides{"spec.training.batchSize=1048576"};  // the largest that a job may have
  const auto text = Inspect("examples/resnet56-cifar10.yaml", overrides, *backend);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("batch 1048576"));
}

TEST(InspectTest, TheGraphIsThatOfEachDevice) {
  const auto backend = MakeReferenceBackend();
  const std::vector<std::string> overrides{"spec.training.devices=2"};
  const auto text = Inspect("examples/lenet5-ps.yaml", overrides, *backend);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("batch 32 on each of 2 devices, softmaxCrossEntropy"));
}

TEST(InspectTest, ABadFileIsRefusedAsLaunchRefusesIt) {
  const auto backend = MakeReferenceBackend();
  const std::vector<std::string> overrides{"spec.training.batchSize=0"};
  EXPECT_THAT(std::string(Inspect("examples/lenet5-ps.yaml", overrides, *backend).status().message()),
              HasSubstr("spec.training.batchSize: found 0"));
}

}  // namespace
}  // namespace trainyard::engine
