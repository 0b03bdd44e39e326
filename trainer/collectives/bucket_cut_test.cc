#include "trainer/collectives/bucket_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BucketCut, TensorsShareBucketsAndLargeOnesTakeSeveral) {
  const std::vector<size_t> elements = {3, 0, 1, 9, 2};
  const std::vector<BucketCut> buckets = CutIntoBuckets(elements, 4 * sizeof(float));
  EXPECT_THAT(buckets, ElementsAre(ElementsAre(BucketSegment{0, 0, 3}, BucketSegment{2, 0, 1}), ElementsAre(BucketSegment{3, 0, 4}),
                                   ElementsAre(BucketSegment{3, 4, 4}), ElementsAre(BucketSegment{3, 8, 1}, BucketSegment{4, 0, 2})));
  EXPECT_EQ(ElementsOf(buckets[0]), 4U);
  EXPECT_EQ(ElementsOf(buckets[3]), 3U);
}

TEST(BucketCut, NothingIsInNoBucket) {
  EXPECT_THAT(CutIntoBuckets({}, 4), IsEmpty());
  EXPECT_THAT(CutIntoBuckets(std::vector<size_t>{0, 0}, 4), IsEmpty());
}

}  // namespace
}  // namespace trainyard::engine
