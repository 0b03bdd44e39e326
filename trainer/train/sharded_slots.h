// Optimizer slots that are spread over the ranks of an all-reduce: how they come to their owners
// where a group forms, and back to rank 0 for a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/mutex.h"
#include "trainer/collectives/cost_model.h"
#include "trainer/collectives/rank_group.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/optim/training_state.h"
#include "trainer/train/optimizer_shard.h"

namespace trainyard::engine {

struct ShardedSlotsOptions {
  OptimizerConfig optimizer;
  std::vector<ParameterSpec> specs;
  std::vector<int> keys;                  // of the tensors in `cut`
  std::vector<BucketCut> cut;             // of a step
  std::vector<std::string> bucket_names;  // for messages
  int rank = 0;
  int ranks = 1;
  int devices = 1;  // of each rank
};

// Used from the step loop's thread, but for Offer. Rank 0 has all slots ("the whole") from a load
// until the first step is done, and from Keep on. In between each rank has its share alone.
class ShardedSlots {
 public:
  explicit ShardedSlots(ShardedSlotsOptions options);

  // Rank 0: of a loaded state.
  void SetWhole(std::vector<ParameterSet> slots);
  // The optimizer has slots.
  bool has_slots() const { return !slot_names_.empty(); }
  bool has_whole() const { return whole_.has_value() || !has_slots(); }
  // Null: rank 0 does not hold it.
  const std::vector<ParameterSet>* whole() const { return whole_ ? &*whole_ : nullptr; }
  // The whole is not needed any more, since every rank has its share of it.
  void ForgetWhole() { whole_.reset(); }
  // Rank 0: gathers the whole, and holds it from now on.
  absl::Status Keep(RankGroup& group, int64_t step);
  // Rank 0: the whole, held or gathered. Errors are those of RankGroup::Wait; Aborted too where a
  // rank has slots of another step.
  absl::StatusOr<std::vector<ParameterSet>> Gather(RankGroup& group, int64_t step);

  // All ranks, where a group has formed: each gets its share of rank 0's whole.
  absl::Status Spread(RankGroup& group, const AlgorithmChoice& choice, int64_t step);
  OptimizerShard& shard() { return *shard_; }
  int64_t bytes() const { return shard_ != nullptr ? shard_->bytes() : 0; }
  // Any thread: this rank's share for rank 0, of the bucket numbers that Gather expects.
  absl::StatusOr<std::vector<OfferedPart>> Offer(int64_t step) const;

 private:
  OperationPlan Plan(bool gather) const;
  // All elements of a bucket, where they lie in a slot of all tensors.
  template <typename Set, typename Float>
  std::vector<std::span<Float>> Pieces(Set& slot, size_t bucket) const;
  void CopyOwn(std::vector<ParameterSet>& whole, bool to_whole);
  absl::StatusOr<std::vector<ParameterSet>> EmptyWhole() const;

  const ShardedSlotsOptions options_;
  const std::vector<std::string> slot_names_;
  AlgorithmChoice choice_;
  RankLayout layout_;
  std::optional<std::vector<ParameterSet>> whole_;
  // Rank 0: slots of tensors that no step changes, by slot and key; empty for others.
  std::vector<std::vector<std::vector<float>>> constant_;
  std::shared_ptr<OptimizerShard> shard_;
  mutable Mutex mutex_;
  std::shared_ptr<OptimizerShard> offered_ ABSL_GUARDED_BY(mutex_);  // shard_
};

}  // namespace trainyard::engine
