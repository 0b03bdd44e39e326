// A job whose devices keep the parameters trains as a job whose devices do not: uneven batches,
// devices without examples, layers that carry state, a resume, a loss that is not finite.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "trainer/backend/cuda/update_bodies.h"
#include "trainer/collectives/tree_order.h"
#include "trainer/optim/loss_scale.h"
#include "trainer/train/test_jobs_on_devices.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TrainerOnDevicesTest : public JobsOnDevicesTest {
 protected:
  // In float16, from a scale that is too large at first and doubles soon.
  void ExpectSameBitsAfterAStop(int devices, Kept kept) {
    precision_ = Precision::kFloat16;
    loss_scale_ = {.first = kLargestLossScale, .steps_to_double = 3};
    const std::string whole = fmt::format("whole{}", devices);
    const std::string parts = fmt::format("parts{}", devices);
    const std::string optimizer = "training.optimizer={name: adam}";
    ASSERT_TRUE(Train(kPictures, devices, kept, whole, {optimizer, "training.steps=20"}).ok());
    ASSERT_TRUE(Train(kPictures, devices, kept, parts, {optimizer, "training.steps=11"}).ok());
    const std::string between = LossScaleOf(parts);
    ASSERT_TRUE(Train(kPictures, devices, kept, parts, {optimizer, "training.steps=20"}).ok());
    EXPECT_EQ(ParametersOf(parts).Sha256Hex(), ParametersOf(whole).Sha256Hex());
    EXPECT_EQ(LossScaleOf(parts), LossScaleOf(whole));
    LossScale scale;
    ASSERT_TRUE(scale.Restore(between).ok()) << between;
    EXPECT_GT(scale.overflows(), 0);
    EXPECT_LT(scale.value(), kLargestLossScale);
  }
};

TEST_F(TrainerOnDevicesTest, EndsWhereATrainingWithTheHostsParametersEnds) {
  for (const int devices : {1, 2, 3}) ExpectAlike(kPictures, devices);
}

TEST_F(TrainerOnDevicesTest, EachDeviceCarriesItsLayersState) { ExpectAlike(kVerses, 2); }

TEST_F(TrainerOnDevicesTest, AResumedTrainingHasTheBitsOfOneThatWasNotStopped) {
  ASSERT_TRUE(Train(kPictures, 3, Kept::kOnDevices, "whole").ok());
  ASSERT_TRUE(Train(kPictures, 3, Kept::kOnDevices, "parts", {"training.steps=3"}).ok());
  ASSERT_TRUE(Train(kPictures, 3, Kept::kOnDevices, "parts").ok());
  EXPECT_EQ(ParametersOf("parts").Sha256Hex(), ParametersOf("whole").Sha256Hex());
}

TEST_F(TrainerOnDevicesTest, AResumedTrainingInFloat16HasTheSameBitsAndTheSameScale) {
  for (const int devices : {1, 3}) ExpectSameBitsAfterAStop(devices, Kept::kOnDevices);
}

TEST_F(TrainerOnDevicesTest, TheHostTakesTheScaleOutAsDevicesDo) {
  for (const int devices : {1, 2}) ExpectSameBitsAfterAStop(devices, Kept::kOnHost);
}

TEST_F(TrainerOnDevicesTest, ACheckpointOfAnotherPrecisionBeginsWithTheFirstScale) {
  ASSERT_TRUE(Train(kPictures, 1, Kept::kOnDevices, "run", {"training.steps=2"}).ok());
  EXPECT_EQ(LossScaleOf("run"), "");
  precision_ = Precision::kFloat16;
  loss_scale_ = {.first = 1024};
  ASSERT_TRUE(Train(kPictures, 1, Kept::kOnDevices, "run", {"training.steps=4"}).ok());
  EXPECT_EQ(LossScaleOf("run"), "1024 2 0");
  precision_ = Precision::kFloat32;
  ASSERT_TRUE(Train(kPictures, 1, Kept::kOnDevices, "run", {"training.steps=5"}).ok());
  EXPECT_EQ(LossScaleOf("run"), "");
}

// A job of steps that all overflow ends with the parameters that it began with.
TEST_F(TrainerOnDevicesTest, StepsThatOverflowChangeNothing) {
  precision_ = Precision::kFloat16;
  loss_scale_ = {.first = kLargestLossScale};
  for (const int devices : {1, 2}) {
    const std::string none = fmt::format("none{}", devices);
    const std::string some = fmt::format("some{}", devices);
    ASSERT_TRUE(Train(kPictures, devices, Kept::kOnDevices, none, {"training.steps=1"}).ok());
    ASSERT_TRUE(Train(kPictures, devices, Kept::kOnDevices, some, {"training.steps=3"}).ok());
    EXPECT_EQ(LossScaleOf(some), "2097152 0 3");
    EXPECT_EQ(ParametersOf(some).Sha256Hex(), ParametersOf(none).Sha256Hex());
  }
}

// The loss is large, and finite.
TEST_F(TrainerOnDevicesTest, AtAScaleOfOneOnNonFiniteDecides) {
  constexpr auto kFast = "training.optimizer={name: sgd, learningRate: 1000}";
  precision_ = Precision::kFloat16;
  loss_scale_ = {.first = 1};
  for (const Kept kept : {Kept::kOnDevices, Kept::kOnHost}) {
    const absl::Status status = Train(kDiverging, 1, kept, "stops", {kFast});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("the gradient of '"), HasSubstr("' is not finite at step ")));
    const std::string skips = kept == Kept::kOnHost ? "host" : "devices";
    ASSERT_TRUE(Train(kDiverging, 1, kept, skips, {kFast, "training.onNonFinite=skip"}).ok());
    EXPECT_EQ(LossScaleOf(skips), "1 0 0");
  }
}

TEST_F(TrainerOnDevicesTest, TheReportShowsTheScaleAndTheStepsThatOverflowed) {
  precision_ = Precision::kFloat16;
  loss_scale_ = {.first = kLargestLossScale};
  ASSERT_TRUE(Train(kPictures, 1, Kept::kOnDevices, "run", {"training.steps=3"}).ok());
  std::ifstream file(folder_ + "/run/replicas/worker-0.json");
  const std::string report{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(report,
              AllOf(HasSubstr("\"lossScale\": 4194304"), HasSubstr("\"overflowedBatches\": 3"), HasSubstr("\"skippedBatches\": 0")));
}

TEST_F(TrainerOnDevicesTest, ALossThatIsNotFiniteNamesTheDevice) {
  for (const Kept kept : {Kept::kOnDevices, Kept::kOnHost}) {
    const absl::Status status = Train(kDiverging, 2, kept, kept == Kept::kOnHost ? "host" : "devices", {kWild});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("loss is "), HasSubstr(" at step 2, worker-0 device 0; learning rate")));
  }
}

// From some step on, the loss of finite parameters is infinite.
TEST_F(TrainerOnDevicesTest, StepsThatAreNotFiniteAreLeftOutAsOnTheHost) {
  ExpectAlike(kDiverging, 2, {kWild, "training.onNonFinite=skip"});
  const absl::Status trained = Train(kDiverging, 2, Kept::kOnDevices, "fewer", {kWild, "training.onNonFinite=skip", "training.steps=5"});
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_EQ(ParametersOf("fewer").Sha256Hex(), ParametersOf("devices2").Sha256Hex()) << "the sixth step changed something";
}

// Devices' gradients, and those of ranks, whoever of them has examples.
TEST(MeanOverDevicesTest, HasTheBitsOfTheSumOverRanks) {
  constexpr size_t kElements = 33;
  constexpr auto kGradients = static_cast<int64_t>(kElements / 2);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> draw(-1, 1);
  for (int ranks = 2; ranks <= cuda::MeanOverDevices::kMost; ++ranks) {
    std::vector<std::vector<float>> values(static_cast<size_t>(ranks), std::vector<float>(kElements));
    for (std::vector<float>& of_rank : values) std::ranges::generate(of_rank, [&] { return draw(random); });
    for (std::vector<float>& of_rank : values) of_rank[0] = -0.0F;
    const auto kept = static_cast<size_t>(ranks / 2);
    for (const bool all : {true, false}) {
      TreeSum tree(ranks, kElements);
      tree.Begin(kElements);
      cuda::MeanOverDevices mean{.addends = {},
                                 .mean = nullptr,
                                 .gradients = kGradients,
                                 .divisor = static_cast<float>(ranks),
                                 .divisor_of_values = static_cast<float>(ranks)};
      for (size_t rank = 0; rank < values.size(); ++rank) {
        const bool adds = all || rank == kept || random() % 2 == 0;
        adds ? tree.Add(values[rank]) : tree.AddNothing();
        mean.addends[rank] = adds ? values[rank].data() : nullptr;
      }
      std::vector<float> expected(kElements);
      std::vector<float> found(kElements);
      ASSERT_TRUE(tree.FinishInto(expected, static_cast<float>(ranks)));
      mean.mean = found.data();
      for (size_t i = 0; i < kElements; ++i) {
        mean(static_cast<int64_t>(i));
        EXPECT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i])) << ranks << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace trainyard::engine
