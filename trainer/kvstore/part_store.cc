#include "trainer/kvstore/part_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/kvstore/travelling_values.h"
#include "trainer/optim/lr_schedule.h"

namespace trainyard::engine {
namespace {

constexpr size_t kBlock = 4096;          // floats: partial sums, parameter, slots and answer of a block fit into a second-level cache
constexpr size_t kLeastLent = 16 << 10;  // bytes of a part: lendable memory goes out in pages
constexpr size_t kIdleAnswerBytes = 16 << 20;

// Of one slot of a part.
size_t SlotBytes(const Part& part) { return Aligned(static_cast<size_t>(part.count) * sizeof(float)); }

}  // namespace

PartStore::PartStore(std::vector<ParameterSpec> specs, const Placement& placement, int server, KvMode mode, int workers,
                     std::unique_ptr<Optimizer> optimizer, const OptimizerConfig& config, Clock& clock, int devices,
                     LendableMemory* lendable, Compression compression)
    : specs_(std::move(specs)),
      all_parts_(placement.parts),
      mode_(mode),
      optimizer_(std::move(optimizer)),
      config_(config),
      slots_(static_cast<int>(optimizer_->slot_names().size())),
      devices_(mode == KvMode::kSync ? devices : 1),
      local_(placement.parts.size(), -1),
      pool_(kIdleAnswerBytes),
      round_memories_(mode == KvMode::kSync ? workers : 1, kBlock),
      clock_(clock) {
  size_t slot_bytes = 0;
  int trainable_parts = 0;
  for (size_t i = 0; i < all_parts_.size(); ++i) {
    if (all_parts_[i].server != server) continue;
    local_[i] = static_cast<int>(parts_.size());
    parts_.push_back(static_cast<int>(i));
    slot_bytes += SlotBytes(all_parts_[i]) * slots_;
    values_bytes_ += all_parts_[i].count * static_cast<int64_t>(sizeof(float));
    if (specs_[all_parts_[i].key].trainable) ++trainable_parts;
  }
  memory_ = Buffer(slot_bytes);
  std::byte* next = memory_.data();
  for (const int i : parts_) {
    const auto count = static_cast<size_t>(all_parts_[i].count);
    LendableMemory* const memory = count * sizeof(float) < kLeastLent ? nullptr : lendable;
    const ParameterSpec& spec = specs_[all_parts_[i].key];
    const PartRows rows(spec, all_parts_[i], TravelType(spec, compression));
    auto state = std::make_unique<State>(rows, count, mode == KvMode::kSync ? workers : 0, memory);
    absl::MutexLock lock(&state->mutex);
    state->trainable = spec.trainable;
    for (int slot = 0; slot < slots_; ++slot, next += SlotBytes(all_parts_[i])) {
      state->slots.emplace_back(reinterpret_cast<float*>(next), count);
    }
    if (mode == KvMode::kAsync) state->next.assign(Places(mode, workers), 0);
    state->answered.resize(Places(mode, workers));
    states_.push_back(std::move(state));
  }
  steps_ = std::make_unique<WorkerSteps>(mode, workers, Places(mode, workers), trainable_parts);
}

void PartStore::SetVersion(State& state, int64_t version) {
  if (state.trainable) steps_->MoveVersion(state.version, version);
  state.version = version;
}

void PartStore::Assign(int part, int slot, const Payload& values) {
  State& state = StateOf(part);
  absl::MutexLock lock(&state.mutex);
  const std::span<float> target = slot == 0 ? state.values.Write() : state.slots[slot - 1];
  TY_CHECK(values.size() == target.size_bytes());
  PayloadReader(values).Read(std::as_writable_bytes(target));
  state.assigned |= uint64_t{1} << slot;
}

bool PartStore::TakeNewer(int part, int64_t step, const Payload& values) {
  State& state = StateOf(part);
  absl::MutexLock lock(&state.mutex);
  if (step < state.takes_from) return false;
  state.takes_from = kNever;  // those of another worker would undo the updates since
  const std::span<float> target = state.values.Write();
  TY_CHECK(values.size() == target.size_bytes());
  PayloadReader(values).Read(std::as_writable_bytes(target));
  SetVersion(state, state.version + 1);
  state.history.AllChanged(state.version);
  return true;
}

absl::Status PartStore::Activate(int64_t step, int64_t values_step) {
  const uint64_t whole = (uint64_t{1} << (1 + slots_)) - 1;
  for (size_t i = 0; i < states_.size(); ++i) {
    absl::MutexLock lock(&states_[i]->mutex);
    if (states_[i]->assigned != whole) {
      const Part& part = all_parts_[parts_[i]];
      return absl::FailedPreconditionError(
          fmt::format("'{}' part {}: tensors assigned are {:#b}, expected {:#b} (the parameter and {} optimizer slots)",
                      specs_[part.key].name, part.index, states_[i]->assigned, whole, slots_));
    }
  }
  for (const std::unique_ptr<State>& state : states_) {
    absl::MutexLock lock(&state->mutex);
    SetVersion(*state, step);
    state->round.MoveTo(step);
    state->history.AllChanged(step);
    state->takes_from = mode_ == KvMode::kAsync ? values_step + 1 : kNever;
  }
  steps_->Begin(step);
  return absl::OkStatus();
}

void PartStore::ForgetAssigned() {
  for (const std::unique_ptr<State>& state : states_) {
    absl::MutexLock lock(&state->mutex);
    state->assigned = 0;
  }
}

std::optional<PushAnswer> PartStore::Push(int part, int worker, int64_t step, PushedGradient gradient) {
  State& state = StateOf(part);
  if (mode_ == KvMode::kSync) return PushSync(part, state, worker, step, std::move(gradient));
  return PushAsync(part, state, worker, step, gradient);
}

std::optional<PushAnswer> PartStore::PushAsync(int part, State& state, int worker, int64_t step, const PushedGradient& gradient) {
  PushAnswer answer;
  {
    absl::MutexLock lock(&state.mutex);
    if (step < state.next[worker]) {
      answer = Duplicate(part, state, worker, gradient.stream);
    } else {
      const PushedGradient* gradients[] = {&gradient};
      answer = Update(part, state, std::span(&worker, 1), gradients);
      state.next[worker] = step + 1;
    }
  }
  if (!answer.duplicate && state.trainable) steps_->CountPush(worker, step);
  answer.step = global_step();
  return answer;
}

std::optional<PushAnswer> PartStore::PushSync(int part, State& state, int worker, int64_t step, PushedGradient gradient) {
  absl::MutexLock lock(&state.mutex);
  if (step < state.version) return Duplicate(part, state, worker, gradient.stream);
  if (step >= end_step_) return std::nullopt;  // the worker is told that the training has ended
  if (!state.round.Hold(worker, step, std::move(gradient), clock_.Now())) return std::nullopt;  // repeated after a lost stream
  if (!state.round.IsComplete()) return std::nullopt;
  const std::vector<int> workers = state.round.Pushed();
  std::vector<const PushedGradient*> gradients;
  for (const int each : workers) gradients.push_back(&state.round.GradientOf(each));
  PushAnswer answer = Update(part, state, workers, gradients);
  state.round.Advance(clock_.Now());
  if (state.trainable) {
    for (const int each : workers) steps_->CountPush(each, step);
  }
  return answer;
}

PushAnswer PartStore::Duplicate(int part, State& state, int worker, int64_t stream) {
  steps_->CountDuplicate();
  state.answered[worker] = {.stream = stream, .version = state.version};
  PushAnswer answer{.part = part, .values = AnswerOf(state), .step = state.version, .duplicate = true};
  answer.workers.push_back(worker);
  return answer;
}

int64_t PartStore::StalenessOf(const State& state, std::span<const int> workers, std::span<const PushedGradient* const> gradients) const {
  if (mode_ == KvMode::kSync) return 0;
  const Answered& answered = state.answered[workers[0]];
  if (answered.version >= 0 && answered.stream == gradients[0]->stream) return state.version - answered.version;
  return std::max<int64_t>(0, state.version - steps_->SeenBy(workers[0]));
}

PushAnswer PartStore::Update(int part, State& state, std::span<const int> workers, std::span<const PushedGradient* const> gradients) {
  const UpdateContext context{.learning_rate = LearningRateAt(config_, state.version, StalenessOf(state, workers, gradients)),
                              .step = state.version};
  std::vector<std::span<float>> slots(state.slots.size());
  PushAnswer answer{.part = part, .workers = {workers.begin(), workers.end()}};
  SetVersion(state, state.version + 1);
  const std::span<float> values = state.values.Write();
  RoundSum sum(gradients, state.rows, state.trainable ? RoundSum::Mean::kOfAll : RoundSum::Mean::kOfThoseWithExamples, devices_,
               round_memories_.Take());
  const bool by_rows =
      state.trainable && optimizer_->KeepsWhereGradientIsZero() &&
      std::ranges::all_of(gradients, [](const PushedGradient* gradient) { return gradient->addends == 0 || gradient->rows.has_value(); });
  if (by_rows) {
    std::vector<int32_t> rows;
    for (const PushedGradient* gradient : gradients) {
      if (gradient->addends > 0) rows.insert(rows.end(), gradient->rows->begin(), gradient->rows->end());
    }
    std::ranges::sort(rows);
    rows.erase(std::ranges::unique(rows).begin(), rows.end());
    for (const int32_t row : rows) {
      const PartRows::Range range = state.rows.RangeOf(row);
      sum.SkipTo(range.begin);
      UpdateRange(state, values, range, context, sum, slots);
    }
    state.history.Changed(rows, state.version);
    AnswerWithRows(state, gradients, answer);
  } else {
    UpdateRange(state, values, {.begin = 0, .count = values.size()}, context, sum, slots);
    state.history.AllChanged(state.version);
  }
  if (!answer.workers.empty()) answer.values = AnswerOf(state);
  for (size_t i = 0; i < workers.size(); ++i) state.answered[workers[i]] = {.stream = gradients[i]->stream, .version = state.version};
  answer.step = state.version;
  return answer;
}

void PartStore::UpdateRange(State& state, std::span<float> values, PartRows::Range elements, const UpdateContext& context,
                            RoundSum& gradients, std::span<std::span<float>> slots) {
  if (gradients.nothing()) return;  // no worker had an example: there is nothing to learn from
  for (size_t done = 0; done < elements.count; done += kBlock) {
    const size_t begin = elements.begin + done;
    const size_t size = std::min(kBlock, elements.count - done);
    const std::span<const float> gradient = gradients.Next(size);
    const std::span<float> block = values.subspan(begin, size);
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = state.slots[i].subspan(begin, size);
    if (state.trainable) {
      optimizer_->Apply(context, block, gradient, slots);
    } else {
      std::ranges::copy(gradient, block.begin());
    }
  }
}

void PartStore::AnswerWithRows(State& state, std::span<const PushedGradient* const> gradients, PushAnswer& answer) {
  const auto suffice = [&](size_t i) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
    return state.answered[answer.workers[i]].stream == gradients[i]->stream;
  };
  int64_t seen = state.version;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (suffice(i)) seen = std::min(seen, state.answered[answer.workers[i]].version);
  }
  std::vector<int32_t> rows;
  if (seen == state.version || !state.history.Since(seen, rows)) return;
  if (state.rows.PayloadBytes(rows) >= state.rows.AllBytes()) return;
  answer.rows = MakeRowPayload(state.rows, rows, state.values.Read(), pool_);
  std::vector<int> others;
  for (size_t i = 0; i < gradients.size(); ++i) (suffice(i) ? answer.row_workers : others).push_back(answer.workers[i]);
  answer.workers = std::move(others);
}

void PartStore::DropHeld(int worker) {
  if (mode_ != KvMode::kSync) return;
  for (const std::unique_ptr<State>& state : states_) {
    absl::MutexLock lock(&state->mutex);
    state->round.Drop(worker);
  }
}

void PartStore::Reset() {
  for (const std::unique_ptr<State>& state : states_) {
    absl::MutexLock lock(&state->mutex);
    state->assigned = 0;
    SetVersion(*state, 0);
    state->history.Forget();
    std::ranges::fill(state->answered, Answered{});
    std::ranges::fill(state->next, 0);
    state->round.DropFrom(0);
    state->round.MoveTo(0);
  }
  end_step_ = kNever;
  steps_->Reset();
}

absl::Status PartStore::EndAt(int64_t step) {
  if (mode_ != KvMode::kSync) return absl::OkStatus();
  // The chief, which has not pushed `step`, asks: no round from there on can be done meanwhile.
  for (const int part : parts_) {
    State& state = StateOf(part);
    absl::MutexLock lock(&state.mutex);
    if (state.version <= step) continue;
    return absl::FailedPreconditionError(
        fmt::format("the training cannot end at step {}: '{}' is at step {}", step, specs_[all_parts_[part].key].name, state.version));
  }
  end_step_ = step;
  for (const int part : parts_) {
    State& state = StateOf(part);
    absl::MutexLock lock(&state.mutex);
    state.round.DropFrom(step);
  }
  return absl::OkStatus();
}

Payload PartStore::Read(int part, int slot) {
  State& state = StateOf(part);
  absl::MutexLock lock(&state.mutex);
  if (slot == 0) return state.values.Lend();
  const std::span<const float> values = state.slots[slot - 1];
  std::shared_ptr<Buffer> copy = pool_.Take(values.size_bytes());
  if (!values.empty()) std::memcpy(copy->data(), values.data(), values.size_bytes());
  const std::span<const std::byte> bytes(copy->data(), values.size_bytes());
  return {bytes, std::move(copy)};
}

Payload PartStore::ReadAnswer(int part) {
  State& state = StateOf(part);
  absl::MutexLock lock(&state.mutex);
  return AnswerOf(state);
}

Payload PartStore::AnswerOf(State& state) {
  return state.rows.travels_as() == DType::kF32 ? state.values.Lend() : Bfloat16Payload(state.values.Read(), pool_);
}

int64_t PartStore::VersionOf(int part) const {
  const State& state = StateOf(part);
  absl::MutexLock lock(&state.mutex);
  return state.version;
}

PartStore::Rounds PartStore::rounds() const {
  Rounds rounds;
  for (const std::unique_ptr<State>& state : states_) {
    absl::MutexLock lock(&state->mutex);
    rounds.lowest = rounds.lowest < 0 ? state->version : std::min(rounds.lowest, state->version);
    rounds.highest = std::max(rounds.highest, state->version);
  }
  return rounds;
}

std::optional<OpenRound> PartStore::OldestOpenRound() const {
  std::optional<OpenRound> oldest;
  if (mode_ != KvMode::kSync) return oldest;
  for (size_t i = 0; i < states_.size(); ++i) {
    const State& state = *states_[i];
    absl::MutexLock lock(&state.mutex);
    OpenRound round{.part = parts_[i],
                    .step = state.version,
                    .since = state.round.since(),
                    .waiting = state.round.Pushed(),
                    .missing = state.round.Missing()};
    if (!round.waiting.empty() && (!oldest || round.since < oldest->since)) oldest = std::move(round);
  }
  return oldest;
}

}  // namespace trainyard::engine
