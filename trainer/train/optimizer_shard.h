// One rank's share of an optimizer whose slots are spread over the ranks of an all-reduce: it
// updates the elements whose sums it is the first to have, and keeps the slots of those alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/collectives/bucket_cut.h"
#include "trainer/collectives/exchange.h"
#include "trainer/collectives/schedule.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Where the elements of a step's buckets lie.
struct ShardLayout {
  std::vector<ParameterSpec> specs;
  std::vector<int> keys;          // of the tensors in `cut`
  std::vector<BucketCut> cut;     // by bucket
  std::vector<SliceRange> owned;  // by bucket: this rank's elements
};

// Optimizers are element-wise, so the bits are those of one process with all slots. Owners of
// different buckets may be called at once, by any thread; everything else is the step loop's, but
// for IsAt and reading slots between two steps.
class OptimizerShard {
 public:
  // With slots of zeros, between step - 1 and `step`. Gradients are means over `devices` devices.
  // ResourceExhausted: there is no memory for the slots.
  static absl::StatusOr<std::shared_ptr<OptimizerShard>> Create(const OptimizerConfig& config, ShardLayout layout, int devices,
                                                                int64_t step);

  // The updates of `step` begin: sums that come to the owners turn values of `parameters` into
  // those of `next`. Both must outlive the step; a bucket that no rank contributes to leaves `next`
  // as it is.
  void Begin(int64_t step, const ParameterSet& parameters, ParameterSet& next);
  // Null: this rank owns nothing of the bucket.
  SumOwner* owner(size_t bucket) { return slices_[bucket].owned.count > 0 ? &slices_[bucket] : nullptr; }

  SliceRange owned(size_t bucket) const { return slices_[bucket].owned; }
  // Of the bucket's owned elements.
  std::span<float> slot(size_t slot, size_t bucket);
  size_t slots() const { return slots_.size(); }
  size_t buckets() const { return slices_.size(); }
  int64_t bytes() const;
  // Whether all slots are between step - 1 and `step`: none is behind, and none is ahead.
  bool IsAt(int64_t step) const;

 private:
  struct Slice final : SumOwner {
    void Take(size_t begin, std::span<const float> sum, int contributors) override { shard->Take(*this, begin, sum, contributors); }
    void Done() override { shard->updated_.fetch_add(1, std::memory_order_release); }

    OptimizerShard* shard = nullptr;
    size_t bucket = 0;
    SliceRange owned;
    size_t offset = 0;  // of its slots
  };

  OptimizerShard(OptimizerConfig config, std::unique_ptr<Optimizer> optimizer, ShardLayout layout, int devices, int64_t step);
  void Take(const Slice& slice, size_t begin, std::span<const float> sum, int contributors);
  // Elements of one tensor.
  void Update(int key, size_t begin, size_t slot_at, std::span<const float> sum, int contributors);

  const OptimizerConfig config_;
  const std::unique_ptr<Optimizer> optimizer_;
  const ShardLayout layout_;
  const int devices_;
  const int64_t first_step_;
  int64_t owned_buckets_ = 0;
  size_t elements_ = 0;
  std::vector<Slice> slices_;  // by bucket
  std::vector<Buffer> slots_;
  std::atomic<int64_t> updated_ = 0;  // buckets, in all steps
  // Of the step under way.
  UpdateContext context_;
  const ParameterSet* parameters_ = nullptr;
  ParameterSet* next_ = nullptr;
};

}  // namespace trainyard::engine
