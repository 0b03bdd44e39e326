#include "trainer/train/local_updater.h"

#include <algorithm>
#include <array>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {

absl::StatusOr<std::unique_ptr<LocalUpdater>> LocalUpdater::Create(const OptimizerConfig& config, ThreadPool* threads,
                                                                   std::function<absl::StatusOr<TrainingState>()> load) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, MakeOptimizer(config));
  TY_CHECK(optimizer->slot_names().size() <= kMostSlots);
  return std::unique_ptr<LocalUpdater>(new LocalUpdater(config, std::move(optimizer), threads, std::move(load)));
}

LocalUpdater::LocalUpdater(OptimizerConfig config, std::unique_ptr<Optimizer> optimizer, ThreadPool* threads,
                           std::function<absl::StatusOr<TrainingState>()> load)
    : config_(std::move(config)), optimizer_(std::move(optimizer)), load_(std::move(load)), threads_(threads) {}

absl::StatusOr<TrainingStart> LocalUpdater::Start(ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(TrainingState state, load_());
  CopyValues(state.parameters, parameters);
  slots_ = std::move(state.slots);
  step_ = state.step;
  pushed_.reserve(parameters.size());
  return TrainingStart{.global_step = step_, .worker_step = step_, .joined = false};
}

void LocalUpdater::Push(int key, const GradientView& gradient, int64_t step) {
  TY_CHECK(step == step_);
  pushed_.push_back({key, gradient});
}

absl::StatusOr<StepResult> LocalUpdater::Wait(ParameterSet& parameters) {
  const UpdateContext context{.learning_rate = LearningRateAt(config_, step_), .step = step_};
  for (const Pushed& push : pushed_) {
    if (!parameters.spec(push.key).trainable) {
      std::ranges::copy(push.gradient.values, parameters.values(push.key).begin());
      continue;
    }
    Apply(context, push, parameters);
  }
  pushed_.clear();
  ++step_;
  return StepResult{.global_step = step_};
}

void LocalUpdater::Apply(const UpdateContext& context, const Pushed& push, ParameterSet& parameters) {
  std::array<std::span<float>, kMostSlots> slots;
  for (size_t slot = 0; slot < slots_.size(); ++slot) slots[slot] = slots_[slot].values(push.key);
  ApplyGradient(*optimizer_, context, parameters.values(push.key), push.gradient,
                static_cast<size_t>(parameters.spec(push.key).row_elements()), std::span(slots).first(slots_.size()), threads_);
}

absl::StatusOr<TrainingState> LocalUpdater::State(const ParameterSet& parameters) {
  TrainingState state{.parameters = CopyOf(parameters), .slots = {}, .step = step_};
  for (const ParameterSet& slot : slots_) state.slots.push_back(CopyOf(slot));
  return state;
}

int64_t LocalUpdater::slot_bytes() const {
  int64_t bytes = 0;
  for (const ParameterSet& slot : slots_) bytes += BytesOf(slot.specs());
  return bytes;
}

}  // namespace trainyard::engine
