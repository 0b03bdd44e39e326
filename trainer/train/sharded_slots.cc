#include "trainer/train/sharded_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/log.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {
namespace {

template <typename Float>
void CopyRange(std::span<const std::span<Float>> pieces, SliceRange range, std::span<float> slice, bool to_pieces) {
  size_t at = 0;
  for (const std::span<Float> piece : pieces) {
    const size_t from = std::max(at, range.begin);
    const size_t to = std::min(at + piece.size(), range.end());
    if (from < to) {
      const std::span<float> there = piece.subspan(from - at, to - from);
      const std::span<float> here = slice.subspan(from - range.begin, to - from);
      if (to_pieces) {
        std::ranges::copy(here, there.begin());
      } else {
        std::ranges::copy(there, here.begin());
      }
    }
    at += piece.size();
  }
}

}  // namespace

ShardedSlots::ShardedSlots(ShardedSlotsOptions options)
    : options_(std::move(options)), slot_names_((*MakeOptimizer(options_.optimizer))->slot_names()), layout_(options_.ranks) {}

void ShardedSlots::SetWhole(std::vector<ParameterSet> slots) {
  constant_.assign(slots.size(), {});
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    constant_[slot].resize(options_.specs.size());
    for (int key = 0; key < slots[slot].size(); ++key) {
      if (std::ranges::count(options_.keys, key) > 0) continue;
      const std::span<const float> values = std::as_const(slots[slot]).values(key);
      constant_[slot][key].assign(values.begin(), values.end());
    }
  }
  whole_ = std::move(slots);
}

template <typename Set, typename Float>
std::vector<std::span<Float>> ShardedSlots::Pieces(Set& slot, size_t bucket) const {
  std::vector<std::span<Float>> pieces;
  for (const BucketSegment& segment : options_.cut[bucket]) {
    pieces.push_back(slot.values(options_.keys[segment.tensor]).subspan(segment.begin, segment.count));
  }
  return pieces;
}

OperationPlan ShardedSlots::Plan(bool gather) const {
  OperationPlan plan{.name = gather ? "gathering of the optimizer's slots" : "spreading of the optimizer's slots", .buckets = {}};
  for (const std::string& slot : slot_names_) {
    for (size_t bucket = 0; bucket < options_.cut.size(); ++bucket) {
      const size_t size = ElementsOf(options_.cut[bucket]);
      const AllReduceAlgorithm algorithm = choice_.Of(size * sizeof(float));
      plan.buckets.push_back({.name = fmt::format("'{}' of {}", slot, options_.bucket_names[bucket]),
                              .elements = size,
                              .schedule = gather ? ::trainyard::engine::Gather(algorithm, options_.rank, layout_, size)
                                                 : Scatter(algorithm, options_.rank, layout_, size)});
    }
  }
  return plan;
}

void ShardedSlots::CopyOwn(std::vector<ParameterSet>& whole, bool to_whole) {
  for (size_t slot = 0; slot < whole.size(); ++slot) {
    for (size_t bucket = 0; bucket < options_.cut.size(); ++bucket) {
      const std::vector<std::span<float>> pieces = Pieces<ParameterSet, float>(whole[slot], bucket);
      CopyRange<float>(pieces, shard_->owned(bucket), shard_->slot(slot, bucket), to_whole);
    }
  }
}

absl::Status ShardedSlots::Spread(RankGroup& group, const AlgorithmChoice& choice, int64_t step) {
  choice_ = choice;
  layout_ = group.layout();
  ShardLayout layout{.specs = options_.specs, .keys = options_.keys, .cut = options_.cut, .owned = {}};
  for (const BucketCut& bucket : options_.cut) {
    const size_t size = ElementsOf(bucket);
    layout.owned.push_back(ReducedBy(choice.Of(size * sizeof(float)), options_.rank, layout_, size));
  }
  {
    MutexLock lock(&mutex_);
    offered_ = nullptr;
  }
  shard_ = nullptr;  // before there is another one
  TY_ASSIGN_OR_RETURN(shard_, OptimizerShard::Create(options_.optimizer, std::move(layout), options_.ranks * options_.devices, step));
  const bool first = options_.rank == 0;
  if (first && !whole_) whole_.emplace();  // there are no slots
  if (first) CopyOwn(*whole_, /*to_whole=*/false);
  if (options_.ranks > 1) {
    const OperationPlan plan = Plan(/*gather=*/false);
    Operation operation(plan, options_.rank, options_.ranks, group.borrowed());
    group.Begin(operation, {.step = step, .kind = OperationId::Kind::kSlots});
    for (size_t i = 0; i < plan.buckets.size(); ++i) {
      const size_t slot = i / options_.cut.size();
      const size_t bucket = i % options_.cut.size();
      BucketValues values;
      if (first) {
        values.own = Pieces<const ParameterSet, const float>((*whole_)[slot], bucket);
      } else {
        values.targets = {{.values = shard_->slot(slot, bucket)}};
        values.targets_begin = shard_->owned(bucket).begin;
      }
      group.Contribute(i, std::move(values));
    }
    TY_RETURN_IF_ERROR(group.Wait().status());
  }
  LogInfo("rank {} of {} keeps {} bytes of the optimizer's slots", options_.rank, options_.ranks, shard_->bytes());
  MutexLock lock(&mutex_);
  offered_ = shard_;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OfferedPart>> ShardedSlots::Offer(int64_t step) const {
  std::shared_ptr<OptimizerShard> shard;
  {
    MutexLock lock(&mutex_);
    shard = offered_;
  }
  if (shard == nullptr || !shard->IsAt(step)) {
    return absl::AbortedError(fmt::format("rank {} has no optimizer slots as of step {}", options_.rank, step));
  }
  std::vector<OfferedPart> parts;
  for (size_t slot = 0; slot < shard->slots(); ++slot) {
    for (size_t bucket = 0; bucket < shard->buckets(); ++bucket) {
      const SliceRange range = shard->owned(bucket);
      if (range.count == 0) continue;
      parts.push_back(
          {.bucket = slot * shard->buckets() + bucket,
           .part = {.peer = 0, .range = range, .contributors = 1, .payload = {std::as_bytes(shard->slot(slot, bucket)), shard}}});
    }
  }
  return parts;
}

absl::StatusOr<std::vector<ParameterSet>> ShardedSlots::EmptyWhole() const {
  const auto slots = static_cast<int64_t>(slot_names_.size());
  return WithMemoryFor("the optimizer's slots of all ranks", slots * BytesOf(options_.specs),
                       [&]() -> absl::StatusOr<std::vector<ParameterSet>> {
                         std::vector<ParameterSet> whole;
                         for (int64_t slot = 0; slot < slots; ++slot) whole.emplace_back(options_.specs);
                         return whole;
                       });
}

absl::StatusOr<std::vector<ParameterSet>> ShardedSlots::Gather(RankGroup& group, int64_t step) {
  TY_CHECK(options_.rank == 0);
  TY_ASSIGN_OR_RETURN(std::vector<ParameterSet> whole, EmptyWhole());
  if (whole_) {
    for (size_t slot = 0; slot < whole.size(); ++slot) CopyValues((*whole_)[slot], whole[slot]);
    return whole;
  }
  if (shard_ == nullptr || !shard_->IsAt(step)) {
    return absl::AbortedError(fmt::format("rank 0 has no optimizer slots as of step {}", step));
  }
  for (size_t slot = 0; slot < whole.size(); ++slot) {
    for (int key = 0; key < whole[slot].size(); ++key) {
      const std::vector<float>& constant = constant_[slot][key];
      if (!constant.empty()) std::ranges::copy(constant, whole[slot].values(key).begin());
    }
  }
  CopyOwn(whole, /*to_whole=*/true);
  if (options_.ranks == 1) return whole;
  const OperationPlan plan = Plan(/*gather=*/true);
  Operation operation(plan, options_.rank, options_.ranks, group.borrowed());
  if (!group.BeginAsking(operation, step)) return absl::AbortedError("the group of ranks that have the optimizer's slots is no more");
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    BucketValues values;
    for (const std::span<float> piece : Pieces<ParameterSet, float>(whole[i / options_.cut.size()], i % options_.cut.size())) {
      values.targets.push_back({.values = piece});
    }
    group.Contribute(i, std::move(values));
  }
  TY_RETURN_IF_ERROR(group.Wait().status());
  return whole;
}

absl::Status ShardedSlots::Keep(RankGroup& group, int64_t step) {
  if (whole_) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(whole_, Gather(group, step));
  return absl::OkStatus();
}

}  // namespace trainyard::engine
