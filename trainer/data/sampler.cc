#include "trainer/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

// The tokens of each row, of which there are batch_size * workers.
absl::StatusOr<int64_t> RowTokens(const SamplerOptions& options) {
  const int64_t tokens = options.examples + options.stream_steps;
  const int64_t rows = options.batch_size * options.workers;
  if (tokens / rows > options.stream_steps) return tokens / rows;
  return absl::InvalidArgumentError(
      fmt::format("{} tokens are too few for {} rows (batchSize {}, {} workers) of {} steps, expected {} or more; use a smaller batchSize, "
                  "fewer steps or more text",
                  tokens, rows, options.batch_size, options.workers, options.stream_steps, rows * (options.stream_steps + 1)));
}

}  // namespace

absl::StatusOr<Sampler> Sampler::Create(const SamplerOptions& given) {
  SamplerOptions options = given;
  if (options.examples < 1) return absl::InvalidArgumentError("the data set has no examples");
  if (options.batch_size < 1) return absl::InvalidArgumentError(fmt::format("batchSize is {}, expected at least 1", options.batch_size));
  if (options.workers < 1 || options.worker < 0 || options.worker >= options.workers) {
    return absl::InvalidArgumentError(fmt::format("worker {} is not one of {} workers", options.worker, options.workers));
  }
  int64_t row_tokens = 0;
  if (options.stream_steps > 0) {
    TY_ASSIGN_OR_RETURN(row_tokens, RowTokens(options));
    options.examples = (row_tokens - 1) / options.stream_steps * options.batch_size * options.workers;
  }
  if (options.start.epoch < 0 || options.start.offset < 0 || options.start.offset >= options.examples) {
    return absl::InvalidArgumentError(fmt::format("cannot start at example {} of epoch {}: an epoch has {} examples", options.start.offset,
                                                  options.start.epoch, options.examples));
  }
  const int64_t rows = options.batch_size * options.workers;
  if (row_tokens > 0 && options.start.offset % rows != 0) {
    return absl::InvalidArgumentError(
        fmt::format("cannot start at example {} of epoch {}: a step reads {} rows", options.start.offset, options.start.epoch, rows));
  }
  if (options.shard == ShardBy::kRanks && options.start.offset > 0) {
    return absl::InvalidArgumentError(fmt::format(
        "cannot start at example {} of an epoch whose workers read parts of their own; start at its beginning", options.start.offset));
  }
  return Sampler(options, row_tokens);
}

int64_t Sampler::StepsFor(int64_t examples) const {
  const int64_t global_batch = options_.batch_size * options_.workers;
  return (examples + global_batch - 1) / global_batch;
}

int64_t Sampler::StepsPerEpoch() const { return StepsFor(options_.examples); }

int64_t Sampler::StepsIn(int64_t epoch) const {
  return epoch == options_.start.epoch ? StepsFor(options_.examples - options_.start.offset) : StepsPerEpoch();
}

int64_t Sampler::StepsUntilEpoch(int64_t epochs) const {
  if (epochs <= options_.start.epoch) return options_.start_step;
  return options_.start_step + StepsIn(options_.start.epoch) + (epochs - options_.start.epoch - 1) * StepsPerEpoch();
}

int64_t Sampler::Boundary(int64_t epoch, int64_t step_in_epoch) const {
  const int64_t first = epoch == options_.start.epoch ? options_.start.offset : 0;
  const int64_t examples = options_.examples - first;
  const int64_t global_batch = options_.batch_size * options_.workers;
  const int64_t steps = StepsFor(examples);
  if (step_in_epoch == steps) return options_.examples;
  const int64_t left = examples - (steps - 1) * global_batch;
  const bool last_would_starve = steps > 1 && left < options_.workers && options_.batch_size > 1;
  if (step_in_epoch == steps - 1 && last_would_starve) return options_.examples - options_.workers;
  return first + step_in_epoch * global_batch;
}

int64_t Sampler::Share(int64_t epoch, int64_t step_in_epoch, int worker) const {
  const int64_t examples = Boundary(epoch, step_in_epoch + 1) - Boundary(epoch, step_in_epoch);
  return examples * (worker + 1) / options_.workers - examples * worker / options_.workers;
}

int64_t Sampler::SharesBefore(int64_t epoch, int64_t step_in_epoch, int worker) const {
  // Every step but the last two is a whole one.
  const int64_t whole = std::min(step_in_epoch, std::max<int64_t>(0, StepsIn(epoch) - 2));
  int64_t examples = whole * options_.batch_size;
  for (int64_t step = whole; step < step_in_epoch; ++step) examples += Share(epoch, step, worker);
  return examples;
}

int64_t Sampler::PartBegin(int worker) const {
  constexpr int64_t kAnyEpoch = 0;  // with ShardBy::kRanks all of them are whole
  int64_t begin = 0;
  for (int before = 0; before < worker; ++before) begin += SharesBefore(kAnyEpoch, StepsPerEpoch(), before);
  return begin;
}

SamplerStep Sampler::At(int64_t step) const {
  TY_CHECK(step >= 0);
  SamplerStep at;
  if (step < options_.start_step) {
    at.epoch = options_.start.last_epoch();
    at.global_begin = at.global_end = at.begin = at.end = options_.start.offset;
    at.last_in_epoch = options_.start.offset == 0;
    return at;
  }
  step -= options_.start_step;
  const int64_t in_first = StepsIn(options_.start.epoch);
  if (step < in_first) {
    at.epoch = options_.start.epoch;
    at.step_in_epoch = step;
  } else {
    at.epoch = options_.start.epoch + 1 + (step - in_first) / StepsPerEpoch();
    at.step_in_epoch = (step - in_first) % StepsPerEpoch();
  }
  at.global_begin = Boundary(at.epoch, at.step_in_epoch);
  at.global_end = Boundary(at.epoch, at.step_in_epoch + 1);
  if (options_.shard == ShardBy::kRanks) {
    at.begin = SharesBefore(at.epoch, at.step_in_epoch, options_.worker);
  } else {
    at.begin = at.global_begin + at.global_examples() * options_.worker / options_.workers;
  }
  at.end = at.begin + Share(at.epoch, at.step_in_epoch, options_.worker);
  at.last_in_epoch = at.step_in_epoch + 1 == StepsIn(at.epoch);
  return at;
}

SamplerPosition Sampler::PositionAfter(int64_t steps) const {
  if (steps <= options_.start_step) return options_.start;
  const SamplerStep last = At(steps - 1);
  if (last.last_in_epoch) return {last.epoch + 1, 0};
  return {last.epoch, last.global_end};
}

Sampler Sampler::GoingOn(int64_t step, SamplerPosition start) const {
  Sampler next = *this;
  if (row_tokens_ > 0) start.offset -= start.offset % (options_.batch_size * options_.workers);
  if (start.offset >= options_.examples) start = {.epoch = start.epoch + 1, .offset = 0};
  if (options_.shard == ShardBy::kRanks) start.offset = 0;
  next.options_.start = start;
  next.options_.start_step = step;
  return next;
}

void Sampler::Indices(const SamplerStep& step, std::vector<int64_t>& indices) {
  indices.resize(static_cast<size_t>(step.examples()));
  if (row_tokens_ > 0) {
    const int64_t rows = options_.batch_size * options_.workers;
    for (size_t i = 0; i < indices.size(); ++i) {
      const int64_t place = step.begin + static_cast<int64_t>(i);  // in the epoch's order: all rows of a step, then of the next
      indices[i] = place % rows * row_tokens_ + place / rows * options_.stream_steps;
    }
    return;
  }
  if (order_epoch_ != step.epoch) {
    const bool own = options_.shard == ShardBy::kRanks;
    const int64_t begin = own ? PartBegin(options_.worker) : 0;
    const int64_t end = own ? PartBegin(options_.worker + 1) : options_.examples;
    order_.clear();
    if (begin < end) MakeEpochOrder(options_.order, step.epoch, begin, end, order_);
    order_epoch_ = step.epoch;
  }
  indices.assign(order_.begin() + step.begin, order_.begin() + step.end);
}

}  // namespace trainyard::engine
