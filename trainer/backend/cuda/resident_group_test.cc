// Several devices that train together: their sum has the bits of the tree over ranks, and all of
// them end a step with the same parameters, those of the host. On this machine, where each device
// is a thread behind its caller, and on GPUs where there are any.
#include "trainer/backend/cuda/resident_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend/cuda/test_host_training.h"
#include "trainer/backend/cuda/test_trials.h"
#include "trainer/backend/cuda/test_where.h"
#include "trainer/optim/clip.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/tensor/finite.h"

namespace trainyard::engine::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The sum of docs/collectives.md; a rank that contributes nothing has no value.
std::optional<float> TreeOver(const std::vector<std::optional<float>>& ranks, size_t begin, size_t end) {
  if (end - begin == 1) return ranks[begin];
  const size_t cut = begin + std::bit_floor(end - begin - 1);
  const std::optional<float> left = TreeOver(ranks, begin, cut);
  const std::optional<float> right = TreeOver(ranks, cut, end);
  if (!left || !right) return left ? left : right;
  return *left + *right;
}

// Of a set for each device; a set that is null adds nothing.
ParameterSet MeanOf(const std::vector<const ParameterSet*>& shares, const ParameterSet& like) {
  ParameterSet mean = EmptyLike(like);
  const auto with_examples = shares.size() - static_cast<size_t>(std::ranges::count(shares, nullptr));
  for (int key = 0; key < like.size(); ++key) {
    const auto divisor = static_cast<float>(like.spec(key).trainable ? shares.size() : with_examples);
    for (size_t i = 0; i < mean.values(key).size(); ++i) {
      std::vector<std::optional<float>> ranks;
      for (const ParameterSet* const share : shares) {
        ranks.push_back(share == nullptr ? std::nullopt : std::optional(share->values(key)[i]));
      }
      mean.values(key)[i] = *TreeOver(ranks, 0, ranks.size()) / divisor;
    }
  }
  return mean;
}

// One of the devices, with a batch of its own, and the same device as the host's optimizer uses it.
struct Replica {
  NamedTrial named;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Executor> executor;  // of the group
  std::unique_ptr<Executor> plain;
  float weight = 1;
  bool with_examples = true;
};

class Together : public TestSomewhere {
 protected:
  ~Together() override { Close(); }

  void Close() {
    for (Replica& replica : replicas_) replica.executor.reset();
    group_.reset();
    replicas_.clear();
  }

  // Batches are unlike each other. Device `fails` fails at a launch.
  absl::Status TryOpen(int devices, const OptimizerConfig& config, bool skips = false, int fails = -1, int fails_at = -1) {
    Close();
    counts_ = {};
    config_ = config;
    std::vector<Backend*> backends;
    for (int device = 0; device < devices; ++device) {
      const HostDeviceOptions options{.fails_at = device == fails ? fails_at : -1, .behind = true};
      TY_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                          MakeBackendOf(device, devices, options, device == 0 ? &counts_ : nullptr, precision_));
      backends.push_back(backend.get());
      replicas_.push_back({.named = NormalisedBlock(2 + device % 3, 3), .backend = std::move(backend)});
      for (float& value : replicas_.back().named.trial.feeds()[0].tensor.values<float>()) value *= 1 + 0.25F * static_cast<float>(device);
    }
    parameters_ = std::make_unique<ParameterSet>(CopyOf(replicas_[0].named.trial.parameters()));
    optimizer_ = *MakeOptimizer(config);
    slots_.clear();
    for (size_t slot = 0; slot < optimizer_->slot_names().size(); ++slot) slots_.push_back(EmptyLike(*parameters_));
    TY_ASSIGN_OR_RETURN(group_,
                        OpenDeviceGroup(backends, {.specs = parameters_->specs(), .optimizer = config_, .skips_not_finite = skips}));
    if (group_ == nullptr) return absl::UnimplementedError("no group of these devices");
    for (int device = 0; device < devices; ++device) {
      Replica& replica = replicas_[static_cast<size_t>(device)];
      const Graph& graph = replica.named.trial.builder().graph();
      TY_ASSIGN_OR_RETURN(replica.executor, Executor::Create(graph, *replica.backend, {.training = &group_->at(device)}));
      TY_ASSIGN_OR_RETURN(replica.plain, Executor::Create(graph, *replica.backend));
    }
    threads_ = std::make_unique<ThreadPool>(devices);
    LoadFromHost();
    return absl::OkStatus();
  }
  void LoadFromHost() {
    for (int device = 0; device < group_->devices(); ++device) ASSERT_TRUE(group_->at(device).Load(*parameters_, slots_).ok());
  }
  void Open(int devices, const OptimizerConfig& config, bool skips = false) {
    const absl::Status opened = TryOpen(devices, config, skips);
    ASSERT_TRUE(opened.ok()) << opened;
  }

  StepContext ContextOf(int device, uint64_t step) const {
    return {.seed = 3, .step = step, .worker = static_cast<uint32_t>(device), .loss_scale = loss_scale_};
  }

  // The first phase of a step.
  absl::Status Train(uint64_t step, double rate) {
    std::vector<absl::Status> failures(replicas_.size());
    outcomes_.assign(replicas_.size(), {});
    threads_->Run(static_cast<int64_t>(replicas_.size()), [&](int64_t begin, int64_t end, int) {
      for (int64_t device = begin; device < end; ++device) {
        failures[static_cast<size_t>(device)] = TrainOne(static_cast<int>(device), step, rate);
      }
    });
    for (const absl::Status& failure : failures) TY_RETURN_IF_ERROR(failure);
    return absl::OkStatus();
  }
  absl::Status TrainOne(int device, uint64_t step, double rate) {
    Replica& replica = replicas_[static_cast<size_t>(device)];
    TY_RETURN_IF_ERROR(group_->BeginStep(device, {.learning_rate = rate, .step = static_cast<int64_t>(step)}, replica.weight));
    if (!replica.with_examples) return absl::OkStatus();
    const StepContext context = ContextOf(device, step);
    TY_ASSIGN_OR_RETURN(const StepOutcome outcome, replica.executor->Train(context, replica.named.trial.feeds()));
    outcomes_[static_cast<size_t>(device)] = outcome;
    return outcome.verdict == StepOutcome::Verdict::kNotFinite ? group_->LeaveOut(device) : absl::OkStatus();
  }
  absl::Status Update() {
    std::vector<bool> with_examples;
    for (const Replica& replica : replicas_) with_examples.push_back(replica.with_examples);
    return group_->Update(with_examples, *threads_);
  }
  void Step(uint64_t step, double rate = 0.05) {
    ASSERT_TRUE(Train(step, rate).ok());
    ASSERT_TRUE(Update().ok());
  }

  // The same as the host does it, in parameters_ and slots_. Device `left_out` changes nothing.
  void StepOnHost(uint64_t step, double rate = 0.05, int left_out = -1) {
    std::vector<ParameterSet> gradients;
    for (size_t device = 0; device < replicas_.size(); ++device) gradients.push_back(EmptyLike(*parameters_));
    std::vector<const ParameterSet*> shares;
    for (size_t device = 0; device < replicas_.size(); ++device) {
      Replica& replica = replicas_[device];
      shares.push_back(replica.with_examples ? &gradients[device] : nullptr);
      if (!replica.with_examples) continue;
      if (static_cast<int>(device) == left_out) {
        for (int key = 0; key < parameters_->size(); ++key) {
          if (!parameters_->spec(key).trainable) std::ranges::copy(parameters_->values(key), gradients[device].values(key).begin());
        }
        continue;
      }
      ASSERT_TRUE(
          replica.plain
              ->Run(ContextOf(static_cast<int>(device), step), replica.named.trial.feeds(), *parameters_, &gradients[device], nullptr)
              .ok());
      for (int key = 0; key < parameters_->size(); ++key) {
        if (parameters_->spec(key).trainable) ScaleGradient(replica.weight / loss_scale_, key, gradients[device]);
      }
      if (config_.clip_norm > 0) ClipByGlobalNorm(config_.clip_norm, gradients[device]);
    }
    ApplyOnHost(*optimizer_, {.learning_rate = rate, .step = static_cast<int64_t>(step)}, MeanOf(shares, *parameters_), *parameters_,
                slots_);
  }

  ParameterSet Parameters(int device) {
    ParameterSet set = EmptyLike(*parameters_);
    EXPECT_TRUE(group_->at(device).FetchParameters(set).ok());
    return set;
  }
  ParameterSet Results(int device) {
    ParameterSet set = EmptyLike(*parameters_);
    EXPECT_TRUE(group_->at(device).FetchResults(set).ok());
    return set;
  }
  std::vector<ParameterSet> Slots(int device) {
    std::vector<ParameterSet> slots;
    for (size_t slot = 0; slot < slots_.size(); ++slot) slots.push_back(EmptyLike(*parameters_));
    EXPECT_TRUE(group_->at(device).FetchSlots(slots).ok());
    return slots;
  }
  void ExpectReplicasAlike() {
    for (int device = 1; device < group_->devices(); ++device) {
      EXPECT_EQ(Parameters(device).Sha256Hex(), Parameters(0).Sha256Hex()) << device;
      const std::vector<ParameterSet> slots = Slots(device);
      const std::vector<ParameterSet> first = Slots(0);
      for (size_t slot = 0; slot < slots.size(); ++slot) EXPECT_EQ(slots[slot].Sha256Hex(), first[slot].Sha256Hex()) << device;
    }
  }
  void ExpectAsOnHost(double within = 2e-6) {
    EXPECT_LT(FarthestApart(Parameters(0), *parameters_), within);
    const std::vector<ParameterSet> slots = Slots(0);
    for (size_t slot = 0; slot < slots.size(); ++slot) EXPECT_LT(FarthestApart(slots[slot], slots_[slot]), within) << slot;
    ExpectReplicasAlike();
  }

  Precision precision_ = Precision::kFloat32;
  float loss_scale_ = 1;
  OptimizerConfig config_;
  HostDeviceCounts counts_;  // of the first device
  std::vector<Replica> replicas_;
  std::unique_ptr<ParameterSet> parameters_;
  std::vector<ParameterSet> slots_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<DeviceGroup> group_;
  std::unique_ptr<ThreadPool> threads_;
  std::vector<StepOutcome> outcomes_;
};

OptimizerConfig Clipped(std::string_view name, double clip_norm) {
  OptimizerConfig config = DefaultOptimizerConfig(name);
  config.clip_norm = clip_norm;
  return config;
}

TEST_P(Together, TheirMeanHasTheBitsOfTheTreeOverRanks) {
  for (const int devices : {2, 3, 4, 7}) {
    SCOPED_TRACE(devices);
    Open(devices, Clipped("sgd", 0.5));
    for (uint64_t step = 0; step < 4; ++step) {
      const auto without = static_cast<size_t>(step);  // with steps 2 and 3 one that may be there
      for (size_t device = 0; device < replicas_.size(); ++device) {
        replicas_[device].with_examples = step < 2 || device != without % replicas_.size();
        replicas_[device].weight = step == 0 ? 1.0F : 1.3F - 0.1F * static_cast<float>(device);
      }
      ASSERT_TRUE(Train(step, 0.05).ok());
      std::vector<ParameterSet> shares;
      for (int device = 0; device < devices; ++device) shares.push_back(Results(device));
      std::vector<const ParameterSet*> adding;
      for (size_t device = 0; device < shares.size(); ++device) {
        adding.push_back(replicas_[device].with_examples ? &shares[device] : nullptr);
      }
      const std::string expected = MeanOf(adding, *parameters_).Sha256Hex();
      ASSERT_TRUE(Update().ok());
      for (int device = 0; device < devices; ++device) EXPECT_EQ(Results(device).Sha256Hex(), expected) << device;
    }
  }
}

TEST_P(Together, EveryOptimizerEndsWhereTheHostEnds) {
  for (const std::string_view name : OptimizerNames()) {
    SCOPED_TRACE(name);
    Open(3, DefaultOptimizerConfig(name));
    for (uint64_t step = 0; step < 5; ++step) {
      const double rate = 0.05 / static_cast<double>(1 + step);
      Step(step, rate);
      StepOnHost(step, rate);
      ExpectAsOnHost();
      // Where a gradient is almost 0, rules that divide by its size make a last bit of the weights
      // large in the next step.
      LoadFromHost();
    }
    EXPECT_GT(FarthestApart(*parameters_, replicas_[0].named.trial.parameters()), 1e-4) << "nothing was trained";
  }
}

TEST_P(Together, AnyNumberOfDevicesEndsWhereTheHostEnds) {
  for (const int devices : {1, 2, 3, 4}) {
    SCOPED_TRACE(devices);
    Open(devices, Clipped("momentum", 0.7));
    for (uint64_t step = 0; step < 5; ++step) {
      Step(step);
      StepOnHost(step);
    }
    ExpectAsOnHost();
  }
}

// Of an epoch's last step: some devices have fewer examples than others, or none.
TEST_P(Together, UnevenSharesOfABatchEndWhereTheHostEnds) {
  for (const double clip_norm : {0.0, 0.4}) {
    Open(4, Clipped("momentum", clip_norm));
    for (uint64_t step = 0; step < 6; ++step) {
      const bool last = step % 3 == 2;
      for (size_t device = 0; device < replicas_.size(); ++device) {
        replicas_[device].weight = last ? 1.5F - 0.25F * static_cast<float>(device) : 1.0F;
        replicas_[device].with_examples = !last || device < 2;
      }
      Step(step);
      StepOnHost(step);
    }
    ExpectAsOnHost();
  }
}

TEST_P(Together, AShareThatIsNotFiniteIsLeftOutAndTheOthersCount) {
  Open(3, DefaultOptimizerConfig("momentum"), /*skips=*/true);
  for (uint64_t step = 0; step < 5; ++step) {
    // The batch is at fault, so the next step is finite again.
    const Tensor fed = replicas_[1].named.trial.feeds()[0].tensor;
    const float kept = fed.values<float>()[0];
    const bool bad = step == 1 || step == 3;  // as it comes, and recorded
    if (bad) fed.values<float>()[0] = std::numeric_limits<float>::infinity();
    Step(step);
    StepOnHost(step, 0.05, bad ? 1 : -1);
    fed.values<float>()[0] = kept;
    EXPECT_EQ(outcomes_[1].good(), !bad);
    EXPECT_TRUE(outcomes_[0].good() && outcomes_[2].good());
  }
  EXPECT_EQ(FirstNotFinite(Parameters(0)), "");
  ExpectAsOnHost();
}

TEST_P(Together, ALossScaleIsTakenOutBeforeGradientsAreClippedAndAdded) {
  precision_ = Precision::kFloat16;
  loss_scale_ = 256;
  OptimizerConfig config = DefaultOptimizerConfig("momentum");
  for (const double clip_norm : {0.0, 1e-3}) {
    config.clip_norm = clip_norm;
    Open(3, config);
    replicas_[1].weight = 1.5F;
    for (uint64_t step = 0; step < 3; ++step) {
      Step(step);
      StepOnHost(step);
      for (const StepOutcome& outcome : outcomes_) EXPECT_TRUE(outcome.good());
    }
    ExpectAsOnHost();
  }
}

// One device alone has gradients beyond the range. The owner of the group leaves the step out.
TEST_P(Together, AnOverflowOfOneDeviceLeavesTheStepOutOnAll) {
  precision_ = Precision::kFloat16;
  loss_scale_ = 256;
  Open(3, DefaultOptimizerConfig("adam"));
  Step(0);
  Step(1);
  const std::string before = Parameters(0).Sha256Hex();
  const std::string moments = Slots(0)[1].Sha256Hex();
  const Tensor target = replicas_[1].named.trial.feeds()[1].tensor;
  const float kept = std::exchange(target.values<float>()[0], 1e9F);
  ASSERT_TRUE(Train(2, 0.05).ok());
  target.values<float>()[0] = kept;
  EXPECT_EQ(outcomes_[1].verdict, StepOutcome::Verdict::kOverflow);
  EXPECT_TRUE(outcomes_[0].good() && outcomes_[2].good());
  EXPECT_EQ(Parameters(0).Sha256Hex(), before);
  EXPECT_EQ(Slots(0)[1].Sha256Hex(), moments);
  ExpectReplicasAlike();
  Step(3);  // which writes over what that step left
  EXPECT_NE(Parameters(0).Sha256Hex(), before);
  EXPECT_EQ(FirstNotFinite(Parameters(0)), "");
  ExpectReplicasAlike();
}

TEST_P(Together, WithoutAnUpdateNoParameterChanges) {
  Open(2, DefaultOptimizerConfig("momentum"));
  Step(0);
  Step(1);
  const std::string before = Parameters(0).Sha256Hex();
  ASSERT_TRUE(Train(2, 0.05).ok());
  EXPECT_EQ(Parameters(0).Sha256Hex(), before);
  EXPECT_EQ(Parameters(1).Sha256Hex(), before);
}

TEST_P(Together, ALoadGoesToWhereItSays) {
  Open(2, DefaultOptimizerConfig("adam"));
  Step(0);
  const ParameterSet first = Parameters(0);
  Step(1);
  LoadFromHost();
  Step(0);
  EXPECT_EQ(Parameters(1).Sha256Hex(), first.Sha256Hex());
  ExpectReplicasAlike();
}

// In its kernels, in what makes its gradients ready, in the sum, in the optimizer.
TEST_P(Together, ADeviceThatFailsEndsTheStepForAll) {
  if (GetParam() == Where::kGpu) GTEST_SKIP() << "a GPU cannot be told to fail";
  const OptimizerConfig config = Clipped("sgd", 0.5);
  Open(3, config);
  Step(0);
  const int launches = counts_.launches;
  ASSERT_GT(launches, 20);
  std::vector<int> failing = {0, launches / 2};
  for (int launch = launches - 12; launch < launches; ++launch) failing.push_back(launch);
  std::string failures;
  for (const int launch : failing) {
    absl::Status status = TryOpen(3, config, /*skips=*/false, /*fails=*/launch % 3, launch);
    if (status.ok()) status = Train(0, 0.05);
    if (status.ok()) status = Update();
    EXPECT_THAT(std::string(status.message()), HasSubstr("the kernel was refused")) << launch << " of " << launches;
    failures += std::string(status.message()) + "\n";
  }
  EXPECT_THAT(failures, AllOf(HasSubstr("the sum over the devices: "), HasSubstr("the optimizer: "), HasSubstr("node 'gradients/")));
}

TEST_P(Together, MoreDevicesThanOneSumTakesTrainWithTheHostsParameters) {
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<Backend*> all;
  for (int device = 0; device < MeanOverDevices::kMost + 1; ++device) {
    backends.push_back(*MakeDeviceBackend(std::make_unique<HostDevice>()));
    all.push_back(backends.back().get());
  }
  const ParameterSet parameters = NormalisedBlock(1, 1).trial.parameters();
  const OptimizerConfig config = DefaultOptimizerConfig("sgd");
  EXPECT_EQ(*OpenDeviceGroup(all, {.specs = parameters.specs(), .optimizer = config}), nullptr);
  all.pop_back();
  EXPECT_NE(*OpenDeviceGroup(all, {.specs = parameters.specs(), .optimizer = config}), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Where, Together, WhereValues(), WhereName);

}  // namespace
}  // namespace trainyard::engine::cuda
