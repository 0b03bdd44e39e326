#include "trainer/train/local_updater.h"

#include <algorithm>
#include <array>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {
namespace {

constexpr size_t kLeastToShare = 64 << 10;  // that several threads share: fewer cost less than waking them

}  // namespace

absl::StatusOr<std::unique_ptr<LocalUpdater>> LocalUpdater::Create(const OptimizerConfig& config, int threads,
                                                                   std::function<absl::StatusOr<TrainingState>()> load) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, MakeOptimizer(config));
  TY_CHECK(optimizer->slot_names().size() <= kMostSlots);
  return std::unique_ptr<LocalUpdater>(new LocalUpdater(config, std::move(optimizer), threads, std::move(load)));
}

LocalUpdater::LocalUpdater(OptimizerConfig config, std::unique_ptr<Optimizer> optimizer, int threads,
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
  const GradientView& gradient = push.gradient;
  const bool by_rows = gradient.rows && optimizer_->KeepsWhereGradientIsZero();
  const auto row_elements = static_cast<size_t>(parameters.spec(push.key).row_elements());
  // A thread's part: rows [begin, end) of the list, else elements.
  const auto apply = [&](int64_t begin, int64_t end, int /*thread*/) {
    const auto first = static_cast<size_t>(begin);
    const auto count = static_cast<size_t>(end - begin);
    GradientView part = gradient;
    if (by_rows) part.rows = gradient.rows->subspan(first, count);
    const auto cut = [&](auto values) { return by_rows ? values : values.subspan(first, count); };
    part.values = cut(gradient.values);
    std::array<std::span<float>, kMostSlots> slots;
    for (size_t slot = 0; slot < slots_.size(); ++slot) slots[slot] = cut(slots_[slot].values(push.key));
    ApplyGradient(*optimizer_, context, cut(parameters.values(push.key)), part, row_elements, std::span(slots.data(), slots_.size()));
  };
  const auto units = static_cast<int64_t>(by_rows ? gradient.rows->size() : gradient.values.size());
  const size_t elements = by_rows ? gradient.rows->size() * row_elements : gradient.values.size();
  if (elements < kLeastToShare) return apply(0, units, 0);
  threads_.Run(units, [&](int64_t begin, int64_t end, int thread) { apply(begin, end, thread); });
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

absl::Status LocalUpdater::AwaitOthers(absl::Duration, ParameterSet&) { return absl::OkStatus(); }

}  // namespace trainyard::engine
