#include "trainer/train/optimizer_shard.h"

#include <algorithm>
#include <array>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {

absl::StatusOr<std::shared_ptr<OptimizerShard>> OptimizerShard::Create(const OptimizerConfig& config, ShardLayout layout, int devices,
                                                                       int64_t step) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, MakeOptimizer(config));
  const size_t slots = optimizer->slot_names().size();
  TY_CHECK(slots <= kMostSlots && layout.owned.size() == layout.cut.size());
  std::shared_ptr<OptimizerShard> shard(new OptimizerShard(config, std::move(optimizer), std::move(layout), devices, step));
  const auto bytes = static_cast<int64_t>(shard->elements_ * sizeof(float));
  TY_RETURN_IF_ERROR(WithMemoryFor("this rank's share of the optimizer's slots", static_cast<int64_t>(slots) * bytes, [&] {
    for (size_t slot = 0; slot < slots; ++slot) shard->slots_.emplace_back(static_cast<size_t>(bytes));
    return absl::OkStatus();
  }));
  return shard;
}

OptimizerShard::OptimizerShard(OptimizerConfig config, std::unique_ptr<Optimizer> optimizer, ShardLayout layout, int devices, int64_t step)
    : config_(std::move(config)),
      optimizer_(std::move(optimizer)),
      layout_(std::move(layout)),
      devices_(devices),
      first_step_(step),
      slices_(layout_.cut.size()) {
  for (size_t bucket = 0; bucket < slices_.size(); ++bucket) {
    Slice& slice = slices_[bucket];
    slice.shard = this;
    slice.bucket = bucket;
    slice.owned = layout_.owned[bucket];
    slice.offset = elements_;
    elements_ += slice.owned.count;
    if (slice.owned.count > 0) ++owned_buckets_;
  }
}

void OptimizerShard::Begin(int64_t step, const ParameterSet& parameters, ParameterSet& next) {
  context_ = {.learning_rate = LearningRateAt(config_, step), .step = step};
  parameters_ = &parameters;
  next_ = &next;
}

std::span<float> OptimizerShard::slot(size_t slot, size_t bucket) {
  return {slots_[slot].as<float>() + slices_[bucket].offset, slices_[bucket].owned.count};
}

int64_t OptimizerShard::bytes() const { return static_cast<int64_t>(slots_.size() * elements_ * sizeof(float)); }

bool OptimizerShard::IsAt(int64_t step) const { return updated_.load(std::memory_order_acquire) == (step - first_step_) * owned_buckets_; }

void OptimizerShard::Take(const Slice& slice, size_t begin, std::span<const float> sum, int contributors) {
  size_t at = 0;  // in the bucket
  for (const BucketSegment& segment : layout_.cut[slice.bucket]) {
    const size_t from = std::max(at, begin);
    const size_t to = std::min(at + segment.count, begin + sum.size());
    if (from < to) {
      Update(layout_.keys[segment.tensor], segment.begin + from - at, slice.offset + from - slice.owned.begin,
             sum.subspan(from - begin, to - from), contributors);
    }
    at += segment.count;
  }
}

void OptimizerShard::Update(int key, size_t begin, size_t slot_at, std::span<const float> sum, int contributors) {
  const std::span<float> next = next_->values(key).subspan(begin, sum.size());
  const bool trainable = layout_.specs[key].trainable;
  const auto divisor = static_cast<float>(trainable ? devices_ : contributors);
  if (!trainable) {  // the sum's mean is the next value
    for (size_t i = 0; i < sum.size(); ++i) next[i] = sum[i] / divisor;
    return;
  }
  std::ranges::copy(parameters_->values(key).subspan(begin, sum.size()), next.begin());
  std::array<float, 4096> means;
  for (size_t done = 0; done < sum.size(); done += means.size()) {
    const size_t count = std::min(means.size(), sum.size() - done);
    for (size_t i = 0; i < count; ++i) means[i] = sum[done + i] / divisor;
    std::array<std::span<float>, kMostSlots> slots;
    for (size_t slot = 0; slot < slots_.size(); ++slot) slots[slot] = {slots_[slot].as<float>() + slot_at + done, count};
    optimizer_->Apply(context_, next.subspan(done, count), std::span<const float>(means).first(count),
                      std::span<const std::span<float>>(slots.data(), slots_.size()));
  }
}

}  // namespace trainyard::engine
