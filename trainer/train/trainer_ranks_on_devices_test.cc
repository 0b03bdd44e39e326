// Ranks of an all-reduce whose devices keep the parameters train as ranks whose hosts do: uneven
// batches, ranks without examples, clipping, a resume, a loss that is not finite, layers that carry
// state, a rank without a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/train/test_jobs_on_devices.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Named after gRPC, whose hand-overs ThreadSanitizer cannot see (scripts/test.sh).
class TrainerRanksOverGrpcTest : public JobsOnDevicesTest {
 protected:
  void TrainAll(std::string_view model, const std::vector<Kept>& kept, const std::string& output,
                const std::vector<std::string>& overrides = {}) {
    EXPECT_THAT(TrainRanks(model, kept, output, overrides), Each(absl::OkStatus()));
  }
  void ExpectRanksAlike(std::string_view model, size_t ranks, const std::vector<std::string>& overrides = {}) {
    SCOPED_TRACE(ranks);
    const std::string number = std::to_string(ranks);
    TrainAll(model, std::vector<Kept>(ranks, Kept::kOnDevices), "devices" + number, overrides);
    TrainAll(model, std::vector<Kept>(ranks, Kept::kOnHost), "host" + number, overrides);
    ExpectNear(ParametersOf("devices" + number), ParametersOf("host" + number));
  }
};

// With three ranks every second step has two examples, which rank 0 takes. Gradients are clipped.
TEST_F(TrainerRanksOverGrpcTest, EndWhereRanksWithTheHostsParametersEnd) {
  for (const size_t ranks : {1, 2, 3, 4}) ExpectRanksAlike(kPictures, ranks);
}

// There gradients leave while backward goes on.
TEST_F(TrainerRanksOverGrpcTest, EndThereWithoutClippingToo) {
  ExpectRanksAlike(kPictures, 2, {"training.optimizer={name: momentum, learningRate: 0.05}"});
}

TEST_F(TrainerRanksOverGrpcTest, EachCarriesItsLayersState) { ExpectRanksAlike(kVerses, 2); }

TEST_F(TrainerRanksOverGrpcTest, AResumedTrainingHasTheBitsOfOneThatWasNotStopped) {
  const std::vector<Kept> three(3, Kept::kOnDevices);
  TrainAll(kPictures, three, "whole");
  TrainAll(kPictures, three, "parts", {"training.steps=3"});
  TrainAll(kPictures, three, "parts");
  EXPECT_EQ(ParametersOf("parts").Sha256Hex(), ParametersOf("whole").Sha256Hex());
}

// Each rank judges its own share.
TEST_F(TrainerRanksOverGrpcTest, SharesThatOverflowInFloat16ChangeNothing) {
  precision_ = Precision::kFloat16;
  loss_scale_ = {.first = kLargestLossScale};
  for (const Kept kept : {Kept::kOnDevices, Kept::kOnHost}) {
    const std::vector<Kept> two(2, kept);
    const std::string where = kept == Kept::kOnHost ? "host" : "devices";
    constexpr auto kPlain = "training.optimizer={name: sgd, learningRate: 0.05}";
    TrainAll(kPictures, two, where + "1", {kPlain, "training.steps=1"});
    TrainAll(kPictures, two, where + "3", {kPlain, "training.steps=3"});
    EXPECT_EQ(LossScaleOf(where + "3"), "2097152 0 3");
    EXPECT_EQ(ParametersOf(where + "3").Sha256Hex(), ParametersOf(where + "1").Sha256Hex());
    TrainAll(kPictures, two, where + "30", {kPlain, "training.steps=30"});
    EXPECT_NE(ParametersOf(where + "30").Sha256Hex(), ParametersOf(where + "1").Sha256Hex());
  }
}

TEST_F(TrainerRanksOverGrpcTest, ALossThatIsNotFiniteNamesTheRank) {
  for (const Kept kept : {Kept::kOnDevices, Kept::kOnHost}) {
    const std::vector<absl::Status> ends = TrainRanks(kDiverging, {kept, kept}, kept == Kept::kOnHost ? "host" : "devices", {kWild});
    ASSERT_EQ(ends.size(), 2U);
    EXPECT_EQ(ends[0].code(), absl::StatusCode::kFailedPrecondition) << ends[0];
    EXPECT_THAT(std::string(ends[0].message()), AllOf(HasSubstr("loss is "), HasSubstr(" at step 2, worker-0; learning rate")));
  }
}

// From some step on, the loss of finite parameters is infinite.
TEST_F(TrainerRanksOverGrpcTest, StepsThatAreNotFiniteAreLeftOutAsOnTheHost) {
  ExpectRanksAlike(kDiverging, 2, {kWild, "training.onNonFinite=skip"});
  TrainAll(kDiverging, std::vector<Kept>(2, Kept::kOnDevices), "fewer", {kWild, "training.onNonFinite=skip", "training.steps=5"});
  EXPECT_EQ(ParametersOf("fewer").Sha256Hex(), ParametersOf("devices2").Sha256Hex()) << "the sixth step changed something";
}

TEST_F(TrainerRanksOverGrpcTest, WithARankWithoutADeviceAllUpdateOnTheHost) {
  TrainAll(kPictures, {Kept::kOnDevices, Kept::kOnHost}, "mixed");
  TrainAll(kPictures, std::vector<Kept>(2, Kept::kOnHost), "host");
  ExpectNear(ParametersOf("mixed"), ParametersOf("host"));
}

}  // namespace
}  // namespace trainyard::engine
