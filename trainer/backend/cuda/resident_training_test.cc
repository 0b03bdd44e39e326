// A training that stays on the device does what the host's optimizers do with the same gradients:
// on this machine, and on a GPU where there is one.
#include "trainer/backend/cuda/resident_training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/cuda/test_host_training.h"
#include "trainer/backend/cuda/test_trials.h"
#include "trainer/backend/cuda/test_where.h"
#include "trainer/optim/clip.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/tensor/finite.h"

namespace trainyard::engine::cuda {
namespace {

class Resident : public TestSomewhere {
 protected:
  void SetUp() override {
    TestSomewhere::SetUp();
    if (IsSkipped()) return;
    Use(Precision::kFloat32);
  }
  void Use(Precision precision) {
    auto backend = MakeBackend(precision, &counts_);
    ASSERT_TRUE(backend.ok()) << backend.status();
    executor_.reset();
    training_.reset();
    backend_ = *std::move(backend);
  }

  // The training, and an executor of it.
  void Open(const OptimizerConfig& config, bool skips = false) {
    executor_.reset();
    parameters_ = std::make_unique<ParameterSet>(CopyOf(named_.trial.parameters()));
    optimizer_ = *MakeOptimizer(config);
    auto training = backend_->MakeDeviceTraining({.specs = parameters_->specs(), .optimizer = config, .skips_not_finite = skips});
    ASSERT_TRUE(training.ok()) << training.status();
    slots_.clear();
    for (size_t slot = 0; slot < optimizer_->slot_names().size(); ++slot) slots_.push_back(EmptyLike(*parameters_));
    ASSERT_NE(*training, nullptr);
    training_ = *std::move(training);
    ASSERT_TRUE(training_->Load(*parameters_, slots_).ok());
    executor_ = *Executor::Create(named_.trial.builder().graph(), *backend_, {.training = training_.get()});
  }

  StepOutcome Step(uint64_t step, double rate = 0.05) {
    EXPECT_TRUE(training_->BeginStep({.learning_rate = rate, .step = static_cast<int64_t>(step)}).ok());
    const auto outcome = executor_->Train({.seed = 3, .step = step, .worker = 1, .loss_scale = loss_scale_}, named_.trial.feeds());
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or(StepOutcome{});
  }

  ParameterSet Parameters() {
    ParameterSet set = EmptyLike(*parameters_);
    EXPECT_TRUE(training_->FetchParameters(set).ok());
    return set;
  }

  // As Step, on the host: parameters_ and slots_ with the gradients that the device left.
  void StepOnHost(const OptimizerConfig& config, uint64_t step, double rate = 0.05) {
    ParameterSet results = EmptyLike(*parameters_);
    ASSERT_TRUE(training_->FetchResults(results).ok());
    for (int key = 0; key < results.size(); ++key) {
      if (results.spec(key).trainable) ScaleGradient(1 / loss_scale_, key, results);
    }
    if (config.clip_norm > 0) ClipByGlobalNorm(config.clip_norm, results);
    ApplyOnHost(*optimizer_, {.learning_rate = rate, .step = static_cast<int64_t>(step)}, results, *parameters_, slots_);
  }

  void ExpectAsOnHost(const OptimizerConfig& config) {
    SCOPED_TRACE(config.name);
    Open(config);
    for (uint64_t step = 0; step < 5; ++step) {
      const double rate = 0.05 / static_cast<double>(1 + step);  // which a recorded step must follow
      const StepOutcome outcome = Step(step, rate);
      EXPECT_TRUE(outcome.good());
      EXPECT_GT(outcome.loss, 0);
      StepOnHost(config, step, rate);
    }
    EXPECT_LT(FarthestApart(Parameters(), *parameters_), 2e-6);
    EXPECT_GT(FarthestApart(*parameters_, named_.trial.parameters()), 1e-4) << "nothing was trained";
    std::vector<ParameterSet> slots;
    for (const ParameterSet& slot : slots_) slots.push_back(EmptyLike(slot));
    ASSERT_TRUE(training_->FetchSlots(slots).ok());
    for (size_t slot = 0; slot < slots.size(); ++slot) EXPECT_LT(FarthestApart(slots[slot], slots_[slot]), 2e-6) << slot;
  }

  // A value that is not finite in the first parameter of the last layer.
  void Poison(float value) {
    parameters_->values(0)[0] = value;
    ASSERT_TRUE(training_->Load(*parameters_, slots_).ok());
  }

  std::string Slots() {
    std::vector<ParameterSet> slots;
    for (const ParameterSet& slot : slots_) slots.push_back(EmptyLike(slot));
    EXPECT_TRUE(training_->FetchSlots(slots).ok());
    std::string digests;
    for (const ParameterSet& slot : slots) digests += slot.Sha256Hex();
    return digests;
  }

  float loss_scale_ = 1;
  NamedTrial named_ = NormalisedBlock(5, 6);  // with moving statistics
  HostDeviceCounts counts_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ParameterSet> parameters_;
  std::vector<ParameterSet> slots_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<DeviceTraining> training_;
  std::unique_ptr<Executor> executor_;
};

TEST_P(Resident, EveryOptimizerDoesWhatItDoesOnTheHost) {
  for (const std::string_view name : OptimizerNames()) ExpectAsOnHost(DefaultOptimizerConfig(name));
}

TEST_P(Resident, OptionsOfOptimizersDoWhatTheyDoOnTheHost) {
  OptimizerConfig rmsprop = DefaultOptimizerConfig("rmsprop");
  rmsprop.momentum = 0.8;
  ExpectAsOnHost(rmsprop);
  OptimizerConfig decays = DefaultOptimizerConfig("momentum");
  decays.weight_decay = 0.3;
  ExpectAsOnHost(decays);
}

TEST_P(Resident, GradientsAreClippedByTheirNormAsOnTheHost) {
  for (const double clip_norm : {1e-3, 1e6}) {
    OptimizerConfig config = DefaultOptimizerConfig("sgd");
    config.clip_norm = clip_norm;
    SCOPED_TRACE(clip_norm);
    Open(config);
    Step(0, 10);
    StepOnHost(config, 0, 10);
    EXPECT_LT(FarthestApart(Parameters(), *parameters_), 5e-6);
  }
}

TEST_P(Resident, OfALossThatIsNotFiniteNoParameterChanges) {
  Open(DefaultOptimizerConfig("momentum"));
  EXPECT_TRUE(Step(0).good());
  EXPECT_TRUE(Step(1).good());  // recorded
  Poison(std::numeric_limits<float>::quiet_NaN());
  const StepOutcome outcome = Step(2);
  EXPECT_FALSE(outcome.good());
  EXPECT_TRUE(std::isnan(outcome.loss));
  const ParameterSet after = Parameters();
  for (int key = 1; key < after.size(); ++key) {
    EXPECT_TRUE(std::ranges::equal(after.values(key), parameters_->values(key))) << after.spec(key).name;
  }
}

// The optimizer sees zeros, as on the host: momentum goes on.
TEST_P(Resident, AStepThatIsLeftOutCountsAsOneWithoutGradients) {
  Open(DefaultOptimizerConfig("momentum"), /*skips=*/true);
  EXPECT_TRUE(Step(0).good());
  std::vector<ParameterSet> before;
  before.push_back(EmptyLike(*parameters_));
  ASSERT_TRUE(training_->FetchSlots(before).ok());
  const ParameterSet start = Parameters();
  // The batch is at fault, so the next step is finite again.
  const Tensor fed = named_.trial.feeds()[0].tensor;
  const float kept = std::exchange(fed.values<float>()[0], std::numeric_limits<float>::infinity());
  EXPECT_FALSE(Step(1).good());
  fed.values<float>()[0] = kept;
  const ParameterSet after = Parameters();
  const auto momentum = static_cast<float>(DefaultOptimizerConfig("momentum").momentum);
  for (int key = 0; key < after.size(); ++key) {
    for (size_t i = 0; i < after.values(key).size(); ++i) {
      const float moves = after.spec(key).trainable ? momentum * before[0].values(key)[i] : 0;
      ASSERT_NEAR(after.values(key)[i], start.values(key)[i] + moves, 1e-6) << after.spec(key).name;
    }
  }
  EXPECT_TRUE(Step(2).good());
  EXPECT_EQ(FirstNotFinite(Parameters()), "");
}

TEST_P(Resident, ALossScaleIsTakenOutOfGradients) {
  Use(Precision::kFloat16);
  loss_scale_ = 512;
  for (const std::string_view name : OptimizerNames()) ExpectAsOnHost(DefaultOptimizerConfig(name));
  OptimizerConfig clips = DefaultOptimizerConfig("sgd");
  clips.clip_norm = 1e-3;
  ExpectAsOnHost(clips);
}

// A recorded step follows the scale, too.
TEST_P(Resident, AnOverflowChangesNothingWhateverTheJobDoesWithStepsThatAreNotFinite) {
  Use(Precision::kFloat16);
  for (const bool skips : {false, true}) {
    Open(DefaultOptimizerConfig("adam"), skips);
    loss_scale_ = 256;
    for (uint64_t step = 0; step < 3; ++step) EXPECT_TRUE(Step(step).good());
    const std::string parameters = Parameters().Sha256Hex();
    const std::string slots = Slots();
    loss_scale_ = 0x1p40F;
    const StepOutcome outcome = Step(3);
    EXPECT_EQ(outcome.verdict, StepOutcome::Verdict::kOverflow);
    EXPECT_GT(outcome.loss, 0);
    EXPECT_EQ(Parameters().Sha256Hex(), parameters);
    EXPECT_EQ(Slots(), slots);
    loss_scale_ = 256;
    EXPECT_TRUE(Step(4).good());
    EXPECT_NE(Parameters().Sha256Hex(), parameters);
    EXPECT_EQ(FirstNotFinite(Parameters()), "");
  }
}

// Each element of the loss's gradient is 2e-8 at most, of which float16 makes 0.
TEST_P(Resident, WithAScaleItLearnsFromGradientsThatFloat16LosesWithoutOne) {
  Use(Precision::kFloat16);
  named_ = {"Small", Trial()};
  Trial& trial = named_.trial;
  const Value w = trial.Parameter("w", {4, 256});
  trial.Scale(0);
  trial.MeanSquaredLoss(*trial.builder().Dense("dense", trial.Input("x", {4, 4}), w));
  for (float& value : trial.feeds()[1].tensor.values<float>()) value *= 1e-5F;
  for (const float scale : {1.0F, 65536.0F}) {
    loss_scale_ = scale;
    Open(DefaultOptimizerConfig("sgd"));
    const double first = Step(0, 200).loss;
    double last = first;
    for (uint64_t step = 1; step < 40; ++step) last = Step(step, 200).loss;
    if (scale == 1) {
      EXPECT_EQ(FarthestApart(Parameters(), trial.parameters()), 0);
    } else {
      EXPECT_LT(last, first / 2);
    }
  }
}

TEST_P(Resident, AtAScaleOfOneAGradientThatIsNotFiniteIsNoOverflow) {
  Use(Precision::kFloat16);
  Open(DefaultOptimizerConfig("momentum"));
  EXPECT_TRUE(Step(0).good());
  const std::string parameters = Parameters().Sha256Hex();
  const std::string slots = Slots();
  // The loss stays finite.
  const Tensor target = named_.trial.feeds()[1].tensor;
  const float kept = std::exchange(target.values<float>()[0], 1e12F);
  const StepOutcome outcome = Step(1);
  target.values<float>()[0] = kept;
  EXPECT_EQ(outcome.verdict, StepOutcome::Verdict::kNotFinite);
  EXPECT_TRUE(std::isfinite(outcome.loss));
  EXPECT_EQ(Parameters().Sha256Hex(), parameters);
  EXPECT_EQ(Slots(), slots);
}

TEST_P(Resident, ARecordedStepStartsTheUpdateToo) {
  Open(DefaultOptimizerConfig("sgd"));
  Step(0);
  const int of_a_step = counts_.started;
  const double before = FarthestApart(Parameters(), named_.trial.parameters());
  for (uint64_t step = 1; step < 5; ++step) Step(step);
  EXPECT_GT(FarthestApart(Parameters(), named_.trial.parameters()), before);
  if (GetParam() == Where::kGpu) return;  // which does not count
  EXPECT_EQ(counts_.replayed, 4);
  EXPECT_EQ(counts_.started, of_a_step);
}

TEST_P(Resident, AnObservedStepIsUpdatedToo) {
  NodeCounter observer;
  const OptimizerConfig config = DefaultOptimizerConfig("sgd");
  Open(config);
  executor_->set_observer(&observer);
  EXPECT_GT(Step(0).loss, 0);
  StepOnHost(config, 0);
  EXPECT_GT(observer.nodes, 5);
  EXPECT_LT(FarthestApart(Parameters(), *parameters_), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Where, Resident, WhereValues(), WhereName);

}  // namespace
}  // namespace trainyard::engine::cuda
