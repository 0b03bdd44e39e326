#include "trainer/kvstore/part_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/optim/lr_schedule.h"

namespace trainyard::engine {
namespace {

constexpr size_t kBlock = 4096;  // floats: gradient, parameter, slots and answer of a block fit into a first- or second-level cache
constexpr size_t kIdleAnswerBytes = 16 << 20;

constexpr size_t Aligned(int64_t floats) {
  constexpr size_t kLine = kBufferAlignment / sizeof(float);
  return (static_cast<size_t>(floats) + kLine - 1) / kLine * kLine;
}

}  // namespace

PartStore::PartStore(std::vector<ParameterSpec> specs, const Placement& placement, int server, KvMode mode, int workers,
                     std::unique_ptr<Optimizer> optimizer, const OptimizerConfig& config, Clock& clock)
    : specs_(std::move(specs)),
      all_parts_(placement.parts),
      mode_(mode),
      workers_(workers),
      optimizer_(std::move(optimizer)),
      config_(config),
      slots_(static_cast<int>(optimizer_->slot_names().size())),
      local_(placement.parts.size(), -1),
      pool_(kIdleAnswerBytes),
      expected_from_(Places(mode, workers)),
      clock_(clock),
      progress_(Places(mode, workers)) {
  size_t floats = 0;
  for (size_t i = 0; i < all_parts_.size(); ++i) {
    if (all_parts_[i].server != server) continue;
    local_[i] = static_cast<int>(parts_.size());
    parts_.push_back(static_cast<int>(i));
    floats += Aligned(all_parts_[i].count) * (1 + slots_);
    values_bytes_ += all_parts_[i].count * static_cast<int64_t>(sizeof(float));
    if (specs_[all_parts_[i].key].trainable) ++trainable_parts_;
  }
  memory_ = Buffer(floats * sizeof(float));
  auto* next = memory_.as<float>();
  for (const int i : parts_) {
    auto state = std::make_unique<State>(PartRows(specs_[all_parts_[i].key], all_parts_[i]));
    const auto count = static_cast<size_t>(all_parts_[i].count);
    absl::MutexLock lock(&state->mutex);
    state->trainable = specs_[all_parts_[i].key].trainable;
    state->values = {next, count};
    next += Aligned(all_parts_[i].count);
    for (int slot = 0; slot < slots_; ++slot, next += Aligned(all_parts_[i].count)) state->slots.emplace_back(next, count);
    if (mode == KvMode::kSync) {
      state->held.resize(workers);
    } else {
      state->next.assign(Places(mode, workers), 0);
    }
    state->answered.resize(Places(mode, workers));
    states_.push_back(std::move(state));
  }
  counts_.worker_steps.assign(Places(mode, workers), 0);
}

bool PartStore::TrainableState(size_t local) const { return specs_[all_parts_[parts_[local]].key].trainable; }

void PartStore::Assign(int part, int slot, const Payload& values) {
  State& state = StateOf(part);
  absl::MutexLock lock(&state.mutex);
  const std::span<float> target = slot == 0 ? state.values : state.slots[slot - 1];
  TY_CHECK(values.size() == target.size_bytes());
  PayloadReader(values).Read(std::as_writable_bytes(target));
  state.assigned |= uint64_t{1} << slot;
}

absl::Status PartStore::Activate(int64_t step) {
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
    state->version = step;
    state->history.AllChanged(step);
  }
  absl::MutexLock lock(&progress_mutex_);
  async_step_ = step;
  for (int worker = 0; worker < workers_; ++worker) {
    // Where nobody remembers how many of the steps were whose, they were shared evenly.
    if (progress_[worker].step == 0) progress_[worker].step = (step + workers_ - 1 - worker) / workers_;
    progress_[worker].seen = step;
  }
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
      answer = Duplicate(part, state, worker, gradient.lane);
    } else {
      const PushedGradient* gradients[] = {&gradient};
      answer = Update(part, state, std::span(&worker, 1), gradients);
      state.next[worker] = step + 1;
    }
  }
  if (!answer.duplicate && state.trainable) CountPush(worker, step);
  answer.step = global_step();
  return answer;
}

std::optional<PushAnswer> PartStore::PushSync(int part, State& state, int worker, int64_t step, PushedGradient gradient) {
  absl::MutexLock lock(&state.mutex);
  if (step < state.version) return Duplicate(part, state, worker, gradient.lane);
  if (step >= end_step_) return std::nullopt;  // the worker is told that the training has ended
  Held& held = state.held[worker];
  if (held.step >= step) return std::nullopt;  // repeated after a lost lane: the first one counts
  held = {step, std::move(gradient)};
  return TryComplete(part, state);
}

PushAnswer PartStore::Duplicate(int part, State& state, int worker, int64_t lane) {
  {
    absl::MutexLock lock(&progress_mutex_);
    ++counts_.duplicates;
  }
  state.answered[worker] = {.lane = lane, .version = state.version};
  PushAnswer answer{.part = part, .values = Copy(state.values), .step = state.version, .duplicate = true};
  answer.workers.push_back(worker);
  return answer;
}

int64_t PartStore::EarliestRound(const State& state, int worker) const {
  const int64_t held = state.held[worker].step;
  return held >= state.version ? held : expected_from_[worker].load();
}

std::optional<PushAnswer> PartStore::TryComplete(int part, State& state) {
  // After a server was lost, every worker may already be beyond the round in which it was refilled.
  int64_t next_round = kNever;
  for (int worker = 0; worker < workers_; ++worker) next_round = std::min(next_round, EarliestRound(state, worker));
  if (next_round != kNever) state.version = std::max(state.version, next_round);
  std::vector<const PushedGradient*> gradients;
  std::vector<int> workers;
  bool complete = true;
  for (int worker = 0; worker < workers_; ++worker) {
    if (state.held[worker].step == state.version) {
      gradients.push_back(&state.held[worker].gradient);
      workers.push_back(worker);
    } else if (EarliestRound(state, worker) <= state.version) {
      complete = false;
    }
  }
  if (gradients.empty()) return std::nullopt;
  if (!complete) {
    if (gradients.size() == 1) state.open_since = clock_.Now();
    return std::nullopt;
  }
  PushAnswer answer = Update(part, state, workers, gradients);
  for (const int worker : workers) {
    state.held[worker] = {};
    if (state.trainable) CountPush(worker, state.version - 1);
  }
  return answer;
}

PushAnswer PartStore::Update(int part, State& state, std::span<const int> workers, std::span<const PushedGradient* const> gradients) {
  const UpdateContext context{.learning_rate = LearningRateAt(config_, state.version), .step = state.version};
  std::vector<GradientReader> readers;
  readers.reserve(gradients.size());
  for (const PushedGradient* gradient : gradients) readers.emplace_back(*gradient, state.rows);
  std::vector<std::span<float>> slots(state.slots.size());
  PushAnswer answer{.part = part, .workers = {workers.begin(), workers.end()}};
  ++state.version;
  const bool by_rows = state.trainable && optimizer_->KeepsWhereGradientIsZero() &&
                       std::ranges::all_of(gradients, [](const PushedGradient* gradient) { return gradient->rows.has_value(); });
  if (by_rows) {
    std::vector<int32_t> rows;
    for (const PushedGradient* gradient : gradients) rows.insert(rows.end(), gradient->rows->begin(), gradient->rows->end());
    std::ranges::sort(rows);
    rows.erase(std::ranges::unique(rows).begin(), rows.end());
    for (const int32_t row : rows) {
      const PartRows::Range range = state.rows.RangeOf(row);
      for (GradientReader& reader : readers) reader.SkipTo(range.begin);
      UpdateRange(state, range, context, readers, slots, nullptr);
    }
    state.history.Changed(rows, state.version);
    AnswerWithRows(state, gradients, answer);
    if (!answer.workers.empty()) answer.values = Copy(state.values);
  } else {
    std::shared_ptr<Buffer> copy = pool_.Take(state.values.size_bytes());
    UpdateRange(state, {.begin = 0, .count = state.values.size()}, context, readers, slots, copy->as<float>());
    state.history.AllChanged(state.version);
    answer.values = Payload(std::span<const std::byte>(copy->data(), state.values.size_bytes()), copy);
  }
  for (size_t i = 0; i < workers.size(); ++i) state.answered[workers[i]] = {.lane = gradients[i]->lane, .version = state.version};
  answer.step = state.version;
  return answer;
}

void PartStore::UpdateRange(State& state, PartRows::Range elements, const UpdateContext& context, std::span<GradientReader> gradients,
                            std::span<std::span<float>> slots, float* out) {
  const auto count = static_cast<float>(gradients.size());
  alignas(kBufferAlignment) std::array<float, kBlock> sum;
  alignas(kBufferAlignment) std::array<float, kBlock> scratch;
  for (size_t done = 0; done < elements.count; done += kBlock) {
    const size_t begin = elements.begin + done;
    const size_t size = std::min(kBlock, elements.count - done);
    std::span<const float> gradient = gradients[0].Next(size, sum);
    for (size_t i = 1; i < gradients.size(); ++i) {
      const std::span<const float> next = gradients[i].Next(size, scratch);
      for (size_t k = 0; k < size; ++k) sum[k] = gradient[k] + next[k];
      gradient = std::span<const float>(sum).first(size);
    }
    if (gradients.size() > 1) {
      for (size_t k = 0; k < size; ++k) sum[k] /= count;
    }
    const std::span<float> values = state.values.subspan(begin, size);
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = state.slots[i].subspan(begin, size);
    if (state.trainable) {
      optimizer_->Apply(context, values, gradient, slots);
    } else {
      std::ranges::copy(gradient, values.begin());
    }
    if (out != nullptr) std::memcpy(out + begin, values.data(), values.size_bytes());
  }
}

void PartStore::AnswerWithRows(State& state, std::span<const PushedGradient* const> gradients, PushAnswer& answer) {
  const auto suffice = [&](size_t i) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
    return state.answered[answer.workers[i]].lane == gradients[i]->lane;
  };
  int64_t seen = state.version;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (suffice(i)) seen = std::min(seen, state.answered[answer.workers[i]].version);
  }
  std::vector<int32_t> rows;
  if (seen == state.version || !state.history.Since(seen, rows)) return;
  if (state.rows.PayloadBytes(rows) >= state.values.size_bytes()) return;
  answer.rows = MakeRowPayload(state.rows, rows, state.values, pool_);
  std::vector<int> others;
  for (size_t i = 0; i < gradients.size(); ++i) (suffice(i) ? answer.row_workers : others).push_back(answer.workers[i]);
  answer.workers = std::move(others);
}

Payload PartStore::Copy(std::span<const float> values) {
  std::shared_ptr<Buffer> copy = pool_.Take(values.size_bytes());
  if (!values.empty()) std::memcpy(copy->data(), values.data(), values.size_bytes());
  const std::span<const std::byte> bytes(copy->data(), values.size_bytes());
  return {bytes, std::move(copy)};
}

std::vector<PushAnswer> PartStore::Expect(int worker, int64_t from_step) {
  expected_from_[worker] = from_step;
  std::vector<PushAnswer> answers;
  if (mode_ != KvMode::kSync) return answers;
  for (const int part : parts_) {
    State& state = StateOf(part);
    absl::MutexLock lock(&state.mutex);
    while (std::optional<PushAnswer> answer = TryComplete(part, state)) answers.push_back(*std::move(answer));
  }
  return answers;
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
    for (Held& held : state.held) {
      if (held.step >= step) held = {};
    }
  }
  return absl::OkStatus();
}

void PartStore::SetPosition(int worker, int64_t step) {
  if (mode_ == KvMode::kSync) return;
  absl::MutexLock lock(&progress_mutex_);
  WorkerProgress& progress = progress_[worker];
  // What a refilled server assumed of a worker that had not come back yet gives way to what the worker says.
  const bool only_assumed = progress.whole == 0 && progress.parts == 0;
  if (step <= progress.step && !only_assumed) return;
  progress.step = step;
  progress.parts = 0;
}

void PartStore::SawCurrent(int worker) {
  absl::MutexLock lock(&progress_mutex_);
  progress_[worker].seen = async_step_;
}

// A worker's step is whole when each of its parts was applied.
void PartStore::CountPush(int worker, int64_t step) {
  absl::MutexLock lock(&progress_mutex_);
  WorkerProgress& progress = progress_[worker];
  if (step > progress.step) {
    progress.step = step;
    progress.parts = 0;
  }
  if (step < progress.step || ++progress.parts < trainable_parts_) return;
  progress.parts = 0;
  ++progress.step;
  ++progress.whole;
  ++counts_.worker_steps[worker];
  ++counts_.steps;
  if (mode_ == KvMode::kSync) return;
  const int64_t staleness = async_step_ - progress.seen;
  counts_.staleness_sum += staleness;
  counts_.staleness_max = std::max(counts_.staleness_max, staleness);
  progress.seen = ++async_step_;
}

Payload PartStore::Read(int part, int slot) {
  State& state = StateOf(part);
  absl::MutexLock lock(&state.mutex);
  return Copy(slot == 0 ? std::span<const float>(state.values) : std::span<const float>(state.slots[slot - 1]));
}

int64_t PartStore::global_step() const {
  if (mode_ == KvMode::kAsync) {
    absl::MutexLock lock(&progress_mutex_);
    return async_step_;
  }
  int64_t lowest = kNever;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!TrainableState(i)) continue;
    absl::MutexLock lock(&states_[i]->mutex);
    lowest = std::min(lowest, states_[i]->version);
  }
  return lowest == kNever ? 0 : lowest;
}

int64_t PartStore::NextStepOf(int worker) const {
  if (trainable_parts_ == 0) return -1;
  if (mode_ == KvMode::kSync) return global_step();
  absl::MutexLock lock(&progress_mutex_);
  const int64_t step = progress_[worker].step;
  if (worker < workers_ || step > 0) return step;
  return std::ranges::min(std::span(progress_).first(workers_), {}, &WorkerProgress::step).step;
}

std::optional<OpenRound> PartStore::OldestOpenRound() const {
  std::optional<OpenRound> oldest;
  if (mode_ != KvMode::kSync) return oldest;
  for (size_t i = 0; i < states_.size(); ++i) {
    const State& state = *states_[i];
    absl::MutexLock lock(&state.mutex);
    OpenRound round{.part = parts_[i], .step = state.version, .since = state.open_since, .missing = {}};
    bool open = false;
    for (int worker = 0; worker < workers_; ++worker) {
      if (state.held[worker].step == state.version) {
        open = true;
      } else if (EarliestRound(state, worker) <= state.version) {
        round.missing.push_back(worker);
      }
    }
    if (open && (!oldest || round.since < oldest->since)) oldest = std::move(round);
  }
  return oldest;
}

PartStore::Counts PartStore::counts() const {
  absl::MutexLock lock(&progress_mutex_);
  return counts_;
}

}  // namespace trainyard::engine
