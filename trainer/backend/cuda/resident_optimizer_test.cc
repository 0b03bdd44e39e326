// Steps with a device's parameters leave the host the gradients of steps with the host's. The
// device's optimizer does with them what the host's does.
#include "trainer/backend/cuda/resident_optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/backend/cuda/test_host_training.h"
#include "trainer/backend/cuda/test_trials.h"
#include "trainer/backend/cuda/test_where.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine::cuda {
namespace {

class OfTheHostsGradients : public TestSomewhere {
 protected:
  void SetUp() override {
    TestSomewhere::SetUp();
    if (IsSkipped()) return;
    auto backend = MakeBackendOf(0, 1, {.behind = true}, nullptr);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }

  // The optimizer, an executor of its parameters, and one of the host's.
  void Open(const OptimizerConfig& config) {
    executor_.reset();
    parameters_ = std::make_unique<ParameterSet>(CopyOf(named_.trial.parameters()));
    host_ = *MakeOptimizer(config);
    auto device = backend_->MakeDeviceOptimizer({.specs = parameters_->specs(), .optimizer = config});
    ASSERT_TRUE(device.ok()) << device.status();
    ASSERT_NE(*device, nullptr);
    device_ = *std::move(device);
    slots_.clear();
    for (size_t slot = 0; slot < host_->slot_names().size(); ++slot) slots_.push_back(EmptyLike(*parameters_));
    ASSERT_TRUE(device_->Load(*parameters_, slots_).ok());
    executor_ = *Executor::Create(named_.trial.builder().graph(), *backend_, {.parameters = device_.get()});
    plain_ = *Executor::Create(named_.trial.builder().graph(), *backend_);
  }

  // Of `parameters`, which executor_ does not look at.
  ParameterSet Gradients(Executor& executor, uint64_t step, const ParameterSet& parameters) {
    ParameterSet gradients = EmptyLike(*parameters_);
    const absl::Status run = executor.Run({.seed = 3, .step = step}, named_.trial.feeds(), parameters, &gradients, nullptr);
    EXPECT_TRUE(run.ok()) << run;
    return gradients;
  }
  void Give(const ParameterSet& results) {
    for (int key = 0; key < results.size(); ++key) device_->Give(key, results.values(key));
  }
  ParameterSet Parameters() {
    ParameterSet set = EmptyLike(*parameters_);
    EXPECT_TRUE(device_->FetchParameters(set).ok());
    return set;
  }
  std::vector<ParameterSet> Slots() {
    std::vector<ParameterSet> slots;
    for (const ParameterSet& slot : slots_) slots.push_back(EmptyLike(slot));
    EXPECT_TRUE(device_->FetchSlots(slots).ok());
    return slots;
  }

  NamedTrial named_ = NormalisedBlock(5, 6);  // with moving statistics
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ParameterSet> parameters_;  // of the host's training
  std::vector<ParameterSet> slots_;
  std::unique_ptr<Optimizer> host_;
  std::unique_ptr<DeviceOptimizer> device_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Executor> plain_;
};

TEST_P(OfTheHostsGradients, EveryOptimizerEndsWhereTheHostEnds) {
  for (const std::string_view name : OptimizerNames()) {
    SCOPED_TRACE(name);
    Open(DefaultOptimizerConfig(name));
    const ParameterSet nothing = EmptyLike(*parameters_);
    for (uint64_t step = 0; step < 5; ++step) {  // as it comes, recorded, and the record again
      const UpdateContext context{.learning_rate = 0.05 / static_cast<double>(1 + step), .step = static_cast<int64_t>(step)};
      const ParameterSet device_has = Parameters();
      const ParameterSet gradients = Gradients(*executor_, step, nothing);
      EXPECT_EQ(gradients.Sha256Hex(), Gradients(*plain_, step, device_has).Sha256Hex()) << step;
      Give(gradients);
      ASSERT_TRUE(device_->Update(context).ok());
      ApplyOnHost(*host_, context, gradients, *parameters_, slots_);
    }
    EXPECT_LT(FarthestApart(Parameters(), *parameters_), 2e-6);
    EXPECT_GT(FarthestApart(*parameters_, named_.trial.parameters()), 1e-4) << "nothing was trained";
    const std::vector<ParameterSet> slots = Slots();
    for (size_t slot = 0; slot < slots.size(); ++slot) EXPECT_LT(FarthestApart(slots[slot], slots_[slot]), 2e-6) << slot;
  }
}

TEST_P(OfTheHostsGradients, AnObservedStepLeavesTheSameGradients) {
  Open(DefaultOptimizerConfig("sgd"));
  NodeCounter observer;
  executor_->set_observer(&observer);
  const ParameterSet gradients = Gradients(*executor_, 0, EmptyLike(*parameters_));
  EXPECT_EQ(gradients.Sha256Hex(), Gradients(*plain_, 0, *parameters_).Sha256Hex());
  EXPECT_GT(observer.nodes, 5);
}

TEST_P(OfTheHostsGradients, AClippedGradientIsTakenAsItIs) {
  OptimizerConfig config = DefaultOptimizerConfig("sgd");
  config.clip_norm = 1e-3;
  Open(config);
  const UpdateContext context{.learning_rate = 0.05};
  const ParameterSet gradients = Gradients(*executor_, 0, *parameters_);
  Give(gradients);
  ASSERT_TRUE(device_->Update(context).ok());
  ApplyOnHost(*host_, context, gradients, *parameters_, slots_);
  EXPECT_LT(FarthestApart(Parameters(), *parameters_), 2e-6);
}

TEST_P(OfTheHostsGradients, AValueThatNobodyGivesStays) {
  Open(DefaultOptimizerConfig("momentum"));
  const ParameterSet gradients = Gradients(*executor_, 0, *parameters_);
  bool fixed = false;
  for (int key = 0; key < gradients.size(); ++key) {
    if (gradients.spec(key).trainable) device_->Give(key, gradients.values(key));
  }
  ASSERT_TRUE(device_->Update({.learning_rate = 0.05}).ok());
  const ParameterSet after = Parameters();
  for (int key = 0; key < after.size(); ++key) {
    if (after.spec(key).trainable) continue;
    fixed = true;
    EXPECT_TRUE(std::ranges::equal(after.values(key), parameters_->values(key))) << after.spec(key).name;
  }
  EXPECT_TRUE(fixed) << "the model has no moving statistics";
}

TEST_P(OfTheHostsGradients, ALoadWithoutSlotsKeepsThem) {
  Open(DefaultOptimizerConfig("momentum"));
  Give(Gradients(*executor_, 0, *parameters_));
  ASSERT_TRUE(device_->Update({.learning_rate = 0.05}).ok());
  const std::vector<ParameterSet> before = Slots();
  ASSERT_TRUE(device_->Load(*parameters_, {}).ok());
  EXPECT_EQ(Parameters().Sha256Hex(), parameters_->Sha256Hex());
  EXPECT_EQ(Slots()[0].Sha256Hex(), before[0].Sha256Hex());
}

TEST(ResidentOptimizer, AFailureIsToldByTheUpdate) {
  const ParameterSet parameters = NormalisedBlock(1, 1).trial.parameters();
  const OptimizerConfig config = DefaultOptimizerConfig("sgd");
  int before_update = -1;
  for (const bool fails : {false, true}) {
    HostDeviceCounts counts;
    const auto backend = *MakeDeviceBackend(std::make_unique<HostDevice>(HostDeviceOptions{.fails_at = before_update}, &counts));
    const auto device = *backend->MakeDeviceOptimizer({.specs = parameters.specs(), .optimizer = config});
    ASSERT_TRUE(device->Load(parameters, {}).ok());
    before_update = counts.launches;
    for (int key = 0; key < parameters.size(); ++key) device->Give(key, parameters.values(key));
    EXPECT_EQ(device->Update({.learning_rate = 0.05}).ok(), !fails);
  }
}

INSTANTIATE_TEST_SUITE_P(Where, OfTheHostsGradients, WhereValues(), WhereName);

}  // namespace
}  // namespace trainyard::engine::cuda
