// A training whose parameters stay on a device ends where the same training on the host ends.
#include "trainer/train/device_updater.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/test_host_device.h"
#include "trainer/data/batch.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"
#include "trainer/model/model_json.h"
#include "trainer/optim/clip.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/train/local_updater.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kRowsOfTokens = 3;
constexpr int64_t kTokensOfARow = 4;
constexpr double kRate = 0.1;

// Layers that carry state, behind an embedding.
ModelSpec CarryingSpec() {
  FieldErrors errors;
  ModelSpec spec = ParseModelSpec({{"input", {{"shape", {kTokensOfARow}}, {"vocabulary", 7}}},
                                   {"layers",
                                    {{{"embedding", {{"outputDim", 4}}}},
                                     {{"lstm", {{"units", 6}, {"returnSequences", true}, {"stateful", true}}}},
                                     {{"dense", {{"units", 7}}}}}},
                                   {"loss", "softmaxCrossEntropy"}},
                                  "model", errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("model");
  return spec;
}

Batch TokensOf(int64_t step) {
  Batch batch;
  batch.Resize(kRowsOfTokens, DType::kI32, {kTokensOfARow}, DType::kI32, {kTokensOfARow});
  for (int64_t i = 0; i < kRowsOfTokens * kTokensOfARow; ++i) {
    batch.x.values<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>((3 * i + step) % 7);
    batch.y.values<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>((3 * i + step + 3) % 7);
  }
  return batch;
}

OptimizerConfig ClippedMomentum() {
  OptimizerConfig config = DefaultOptimizerConfig("momentum");
  config.learning_rate = kRate;
  config.clip_norm = 0.5;
  return config;
}

// What both begin with: the state of a training that has done two steps.
absl::StatusOr<TrainingState> StateOfStepTwo() {
  TrainingState state{.parameters = ParameterSet(*ParameterSpecsOf(CarryingSpec())), .slots = {}, .step = 2};
  InitializeParameters(CarryingSpec(), 1, state.parameters);
  state.slots.emplace_back(*ParameterSpecsOf(CarryingSpec()));
  state.slots[0].values(0)[0] = 0.25F;
  return state;
}

void ExpectNear(const ParameterSet& found, const ParameterSet& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (int key = 0; key < found.size(); ++key) {
    for (size_t i = 0; i < found.values(key).size(); ++i) {
      ASSERT_NEAR(found.values(key)[i], expected.values(key)[i], 1e-6) << found.spec(key).name << " " << i;
    }
  }
}

class DeviceUpdaterTest : public testing::Test {
 protected:
  DeviceUpdaterTest() : backend_(*cuda::MakeDeviceBackend(std::make_unique<cuda::HostDevice>())) {
    const std::vector<ParameterSpec> specs = *ParameterSpecsOf(CarryingSpec());
    group_ = *OpenDeviceGroup(std::vector<Backend*>{backend_.get()}, {.specs = specs, .optimizer = ClippedMomentum()});
    runner_ = std::make_unique<ModelRunner>(CarryingSpec(), *backend_, ExecutorOptions{.training = &group_->at(0)});
    updater_ = std::make_unique<DeviceUpdater>(*group_, StateOfStepTwo);
    parameters_ = ParameterSet(specs);
    const auto start = updater_->Start(parameters_);
    EXPECT_TRUE(start.ok()) << start.status();
    EXPECT_EQ(start->global_step, 2);
  }

  double Step(int64_t step) {
    EXPECT_TRUE(group_->BeginStep(0, {.learning_rate = kRate, .step = step}, 1).ok());
    const auto outcome = runner_->TrainOnDevice({.seed = 1, .step = static_cast<uint64_t>(step)}, TokensOf(step));
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(updater_->Wait(parameters_)->global_step, step + 1);
    return outcome->loss;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<DeviceGroup> group_;
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<DeviceUpdater> updater_;
  ParameterSet parameters_;
};

TEST_F(DeviceUpdaterTest, EndsWhereATrainingOnTheHostEnds) {
  ModelRunner runner(CarryingSpec(), *backend_);
  const auto updater = LocalUpdater::Create(ClippedMomentum(), nullptr, StateOfStepTwo);
  ParameterSet parameters(*ParameterSpecsOf(CarryingSpec()));
  ParameterSet gradients(*ParameterSpecsOf(CarryingSpec()));
  ASSERT_TRUE((*updater)->Start(parameters).ok());
  for (int64_t step = 2; step < 7; ++step) {
    const auto loss = runner.Train({.seed = 1, .step = static_cast<uint64_t>(step)}, TokensOf(step), parameters, gradients, nullptr);
    ASSERT_TRUE(loss.ok()) << loss.status();
    ClipByGlobalNorm(ClippedMomentum().clip_norm, gradients);
    for (int key = 0; key < gradients.size(); ++key) (*updater)->Push(key, gradients.gradient(key), step);
    ASSERT_TRUE((*updater)->Wait(parameters).ok());
    EXPECT_NEAR(Step(step), *loss, 1e-5) << step;
  }
  const auto found = updater_->State(parameters_);
  const auto expected = (*updater)->State(parameters);
  ASSERT_TRUE(found.ok() && expected.ok());
  EXPECT_EQ(found->step, 7);
  ExpectNear(found->parameters, expected->parameters);
  ASSERT_EQ(found->slots.size(), 1u);
  ExpectNear(found->slots[0], expected->slots[0]);
  ExpectNear(**runner_->TrainingState(kRowsOfTokens), **runner.TrainingState(kRowsOfTokens));
}

TEST_F(DeviceUpdaterTest, ParametersOfTheHostAreThoseOfTheLastRefresh) {
  const ParameterSet start = CopyOf(parameters_);
  Step(2);
  ExpectNear(parameters_, start);
  ASSERT_TRUE(updater_->Refresh(parameters_).ok());
  EXPECT_NE(parameters_.values(0)[0], start.values(0)[0]);
  const ParameterSet refreshed = CopyOf(parameters_);
  ASSERT_TRUE(updater_
                  ->Look(parameters_,
                         [&](const StateView& state) {
                           ExpectNear(state.parameters, refreshed);
                           EXPECT_EQ(state.step, 3);
                           return absl::OkStatus();
                         })
                  .ok());
  Step(3);
  ASSERT_TRUE(updater_->AwaitOthers(absl::Seconds(1), parameters_).ok());  // the end of a training
  EXPECT_NE(parameters_.values(0)[0], refreshed.values(0)[0]);
}

TEST_F(DeviceUpdaterTest, GoesBackToTheCheckpointThatItLoads) {
  const double first = Step(2);
  Step(3);
  runner_->ResetState();
  ASSERT_TRUE(updater_->Start(parameters_).ok());
  EXPECT_EQ(Step(2), first);
}

}  // namespace
}  // namespace trainyard::engine
