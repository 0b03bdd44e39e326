#include "trainer/train/optimizer_shard.h"

#include <gtest/gtest.h>

#include "trainer/kvstore/test_cluster.h"

namespace trainyard::engine {
namespace {

ShardLayout LayoutOf(int rank, int ranks) {
  ShardLayout layout{.specs = TestSpecs(), .keys = {3, 2, 1, 0}, .cut = {}, .owned = {}};
  std::vector<size_t> elements;
  for (const int key : layout.keys) elements.push_back(static_cast<size_t>(layout.specs[key].shape.elements()));
  layout.cut = CutIntoBuckets(elements, 100'000);
  for (const BucketCut& bucket : layout.cut) {
    layout.owned.push_back(ReducedBy(AllReduceAlgorithm::kDirect, rank, ranks, ElementsOf(bucket)));
  }
  return layout;
}

std::shared_ptr<OptimizerShard> MakeShard(int rank, int ranks, int64_t step = 0) {
  absl::StatusOr<std::shared_ptr<OptimizerShard>> shard = OptimizerShard::Create(TestOptimizer(), LayoutOf(rank, ranks), ranks, step);
  EXPECT_TRUE(shard.ok()) << shard.status();
  return *shard;
}

// Gives each owner the sum that `of` holds, as 2 of `ranks` ranks contributed it.
void GiveSums(OptimizerShard& shard, const ParameterSet& of) {
  const ShardLayout layout = LayoutOf(0, 1);
  for (size_t bucket = 0; bucket < shard.buckets(); ++bucket) {
    if (shard.owner(bucket) == nullptr) continue;
    size_t at = 0;
    for (const BucketSegment& segment : layout.cut[bucket]) {
      const size_t from = std::max(at, shard.owned(bucket).begin);
      const size_t to = std::min(at + segment.count, shard.owned(bucket).end());
      if (from < to) {
        shard.owner(bucket)->Take(from, of.values(layout.keys[segment.tensor]).subspan(segment.begin + from - at, to - from), 2);
      }
      at += segment.count;
    }
    shard.owner(bucket)->Done();
  }
}

TEST(OptimizerShard, RanksTogetherMakeTheValuesOfOneProcess) {
  const ParameterSet start = StartValues(TestSpecs());
  ParameterSet gradients(TestSpecs());
  FillGradients(start, 0, 0, gradients);
  ParameterSet alone(TestSpecs());
  const std::shared_ptr<OptimizerShard> whole = MakeShard(0, 1);
  whole->Begin(0, start, alone);
  GiveSums(*whole, gradients);
  ParameterSet together(TestSpecs());
  int64_t bytes = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const std::shared_ptr<OptimizerShard> shard = MakeShard(rank, 4);
    shard->Begin(0, start, together);
    ParameterSet sums(TestSpecs());
    for (int key = 0; key < sums.size(); ++key) {
      // The divisor of trainable tensors is the number of ranks; that of others is the number of
      // contributions.
      const float times = sums.spec(key).trainable ? 4 : 1;
      std::ranges::transform(std::as_const(gradients).values(key), sums.values(key).begin(), [times](float x) { return times * x; });
    }
    GiveSums(*shard, sums);
    bytes += shard->bytes();
    EXPECT_NEAR(static_cast<double>(shard->bytes()), static_cast<double>(whole->bytes()) / 4, 64);
  }
  EXPECT_EQ(together.Sha256Hex(), alone.Sha256Hex());
  EXPECT_EQ(bytes, whole->bytes());
}

TEST(OptimizerShard, ItIsAtAStepOnlyBetweenWholeSteps) {
  const ParameterSet start = StartValues(TestSpecs());
  ParameterSet next(TestSpecs());
  const std::shared_ptr<OptimizerShard> shard = MakeShard(1, 2, /*step=*/5);
  ASSERT_GT(shard->buckets(), 1U);
  EXPECT_TRUE(shard->IsAt(5));
  shard->Begin(5, start, next);
  shard->owner(0)->Done();
  EXPECT_FALSE(shard->IsAt(5));
  EXPECT_FALSE(shard->IsAt(6));
  for (size_t bucket = 1; bucket < shard->buckets(); ++bucket) shard->owner(bucket)->Done();
  EXPECT_TRUE(shard->IsAt(6));
}

}  // namespace
}  // namespace trainyard::engine
