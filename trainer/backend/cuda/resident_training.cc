#include "trainer/backend/cuda/resident_training.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine::cuda {
namespace {

constexpr int64_t kFloatsAligned = kBufferAlignment / sizeof(float);

float Rest(double decay) { return static_cast<float>(1 - decay); }

}  // namespace

absl::StatusOr<std::unique_ptr<ResidentTraining>> ResidentTraining::Create(Device& device, Health& health, const float* loss_scale,
                                                                           const DeviceTrainingOptions& options, UpdateOf update_of) {
  std::unique_ptr<ResidentTraining> training(new ResidentTraining(device, health, loss_scale, options, update_of));
  TY_RETURN_IF_ERROR(training->Allocate());
  TY_ASSIGN_OR_RETURN(training->update_, training->UpdateWork());
  return training;
}

ResidentTraining::ResidentTraining(Device& device, Health& health, const float* loss_scale, const DeviceTrainingOptions& options,
                                   UpdateOf update_of)
    : device_(device),
      health_(health),
      loss_scale_(loss_scale),
      config_(options.optimizer),
      skips_(options.skips_not_finite),
      update_of_(update_of),
      specs_(options.specs.begin(), options.specs.end()),
      offsets_(specs_.size()) {
  for (const bool trainable : {true, false}) {
    for (size_t key = 0; key < specs_.size(); ++key) {
      if (specs_[key].trainable != trainable) continue;
      offsets_[key] = all_;
      all_ += (specs_[key].shape.elements() + kFloatsAligned - 1) / kFloatsAligned * kFloatsAligned;
    }
    if (trainable) trainable_ = all_;
  }
}

absl::Status ResidentTraining::Allocate() {
  const auto zeros = [this](std::string_view what) -> absl::StatusOr<Memory> {
    TY_ASSIGN_OR_RETURN(Memory block, device_.Allocate(what, static_cast<size_t>(all_) * sizeof(float)));
    TY_RETURN_IF_ERROR(device_.Launch(Each<Fill>{{Begin(block), 0.0f}, all_}));
    return block;
  };
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(config_));
  TY_ASSIGN_OR_RETURN(parameters_, zeros("the parameters"));
  TY_ASSIGN_OR_RETURN(results_, zeros("the gradients"));
  for (const std::string& name : optimizer->slot_names()) {
    TY_ASSIGN_OR_RETURN(slots_.emplace_back(), zeros(fmt::format("the optimizer's slot {}", name)));
  }
  TY_ASSIGN_OR_RETURN(numbers_, device_.Allocate("the learning rate", sizeof(UpdateNumbers)));
  TY_ASSIGN_OR_RETURN(outcome_, device_.Allocate("the outcome of a step", sizeof(OutcomeOnDevice)));
  if (const size_t bytes = PartialBytes<JudgeGradients>(1, trainable_); bytes > 0) {
    TY_ASSIGN_OR_RETURN(partial_, device_.Allocate("the norm of the gradients", bytes));
  }
  if (update_of_ == UpdateOf::kStep) return absl::OkStatus();
  constexpr OutcomeOnDevice kGood{.loss = 0, .verdict = static_cast<float>(StepOutcome::Verdict::kGood), .scale = 1};
  TY_ASSIGN_OR_RETURN(good_, device_.Allocate("the outcome of a step", sizeof kGood));
  return device_.Upload(&kGood, sizeof kGood, good_->data());
}

// What the optimizer believes of the gradients that it takes.
const OutcomeOnDevice* ResidentTraining::Judged() const {
  return reinterpret_cast<const OutcomeOnDevice*>((good_ != nullptr ? good_ : outcome_)->data());
}

// The rule, ready to run in every step.
absl::StatusOr<Work> ResidentTraining::UpdateWork() const {
  const UpdateInput in{Begin(parameters_), Begin(results_), reinterpret_cast<const UpdateNumbers*>(numbers_->data()), Judged(), skips_};
  const auto slot = [this](size_t i) { return Begin(slots_[i]); };
  const std::string& name = config_.name;
  const auto momentum = static_cast<float>(config_.momentum);
  const auto epsilon = static_cast<float>(config_.epsilon);
  const auto rho = static_cast<float>(config_.rho);
  if (name == "sgd") return Each<SgdUpdate>{{in}, trainable_};
  if (name == "momentum" || name == "nesterov") return Each<MomentumUpdate>{{in, slot(0), momentum, name == "nesterov"}, trainable_};
  if (name == "adagrad") {
    return Each<AdagradUpdate>{{in, slot(0), static_cast<float>(config_.initial_accumulator + config_.epsilon)}, trainable_};
  }
  if (name == "adadelta") return Each<AdadeltaUpdate>{{in, slot(0), slot(1), rho, Rest(config_.rho), epsilon}, trainable_};
  if (name == "rmsprop") {
    float* const moved = slots_.size() > 1 ? slot(1) : nullptr;
    return Each<RmspropUpdate>{{in, slot(0), moved, rho, Rest(config_.rho), momentum, epsilon}, trainable_};
  }
  if (name == "adam" || name == "adamw") {
    return Each<AdamUpdate>{{in, slot(0), slot(1), Rest(config_.beta1), Rest(config_.beta2), epsilon}, trainable_};
  }
  return absl::UnimplementedError(fmt::format("the cuda backend has no kernel for optimizer {}", name));
}

absl::Status ResidentTraining::Load(const ParameterSet& parameters, std::span<const ParameterSet> slots) {
  TY_CHECK(slots.empty() || slots.size() == slots_.size());
  TY_RETURN_IF_ERROR(Store(parameters, parameters_));
  for (size_t i = 0; i < slots.size(); ++i) TY_RETURN_IF_ERROR(Store(slots[i], slots_[i]));
  return absl::OkStatus();
}

absl::Status ResidentTraining::FetchSlots(std::span<ParameterSet> slots) {
  TY_CHECK(slots.size() == slots_.size());
  for (size_t i = 0; i < slots.size(); ++i) TY_RETURN_IF_ERROR(Fetch(slots_[i], slots[i]));
  return absl::OkStatus();
}

absl::Status ResidentTraining::Store(const ParameterSet& host, const Memory& block) {
  for (int key = 0; key < host.size(); ++key) {
    health_.Try("upload of a parameter",
                [&] { return device_.Upload(host.values(key).data(), host.values(key).size_bytes(), At(block, key)); });
  }
  return health_.status();
}

absl::Status ResidentTraining::Fetch(const Memory& block, ParameterSet& host) {
  for (int key = 0; key < host.size(); ++key) {
    health_.Try("download of a parameter",
                [&] { return device_.Download(At(block, key), host.values(key).size_bytes(), host.values(key).data()); });
    host.touched_rows(key).SetAll();
  }
  return health_.status();
}

absl::Status ResidentTraining::BeginStep(const UpdateContext& context, float weight) {
  const auto t = static_cast<double>(context.step + 1);
  const double correction = std::sqrt(1 - std::pow(config_.beta2, t)) / (1 - std::pow(config_.beta1, t));
  const UpdateNumbers numbers{static_cast<float>(context.learning_rate), static_cast<float>(context.learning_rate * correction),
                              static_cast<float>(context.learning_rate * config_.weight_decay), weight};
  health_.Try("the learning rate", [&] { return device_.Upload(&numbers, sizeof numbers, numbers_->data()); });
  return health_.status();
}

void ResidentTraining::Update(const void* loss) {
  health_.Try("the optimizer", [&]() -> absl::Status {
    if (update_of_ == UpdateOf::kStep) {
      TY_RETURN_IF_ERROR(Judge(static_cast<const float*>(loss)));
      return StartApply();
    }
    TY_RETURN_IF_ERROR(device_.Launch(Each<Weigh>{{results(), reinterpret_cast<const UpdateNumbers*>(numbers_->data())}, trainable_}));
    TY_RETURN_IF_ERROR(Judge(static_cast<const float*>(loss)));
    if (config_.clip_norm <= 0 && loss_scale_ == nullptr) return absl::OkStatus();
    return device_.Launch(Each<Clip>{{results(), reinterpret_cast<const OutcomeOnDevice*>(outcome_->data())}, trainable_});
  });
}

absl::Status ResidentTraining::Judge(const float* loss) {
  auto* const outcome = reinterpret_cast<OutcomeOnDevice*>(outcome_->data());
  if (!skips_ && config_.clip_norm <= 0 && loss_scale_ == nullptr) return device_.Launch(Each<JudgeLoss>{{loss, outcome}, 1});
  return device_.Launch(Reduce<JudgeGradients>{
      {results(), loss, outcome, config_.clip_norm, skips_, loss_scale_}, 1, trainable_, partial_ != nullptr ? partial_->data() : nullptr});
}

void ResidentTraining::Apply() {
  health_.Try("the optimizer", [&] { return StartApply(); });
}

absl::Status ResidentTraining::StartApply() {
  TY_RETURN_IF_ERROR(device_.Launch(update_));
  return device_.Launch(Each<TakeValues>{{results() + trainable_, Begin(parameters_) + trainable_, Judged()}, all_ - trainable_});
}

absl::Status ResidentTraining::LeaveOut() {
  health_.Try("a step that is left out", [&]() -> absl::Status {
    TY_RETURN_IF_ERROR(device_.Launch(Each<Fill>{{results(), 0.0f}, trainable_}));
    return device_.Launch(Each<TakeValues>{{Begin(parameters_) + trainable_, results() + trainable_, Judged()}, all_ - trainable_});
  });
  return health_.status();
}

void ResidentTraining::Take(int key, const void* value) {
  const int64_t elements = specs_[key].shape.elements();
  health_.Try("a gradient", [&] {
    return device_.Launch(
        Each<CopyRows<float, float>>{{static_cast<const float*>(value), At(results_, key), elements, elements, elements}, elements});
  });
}

}  // namespace trainyard::engine::cuda
