#include "trainer/collectives/bucket_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BucketCut, TensorsShareBucketsAndLargeOnesTakeSeveral) {
  const std::vector<size_t> elements = {1, 0, 3, 20, 2};
  const std::vector<BucketCut> buckets = CutIntoBuckets(elements, 8 * sizeof(float));
  EXPECT_THAT(buckets,
              ElementsAre(ElementsAre(BucketSegment{0, 0, 1}, BucketSegment{2, 0, 3}), ElementsAre(BucketSegment{3, 0, 8}),
                          ElementsAre(BucketSegment{3, 8, 8}), ElementsAre(BucketSegment{3, 16, 4}), ElementsAre(BucketSegment{4, 0, 2})));
  EXPECT_EQ(ElementsOf(buckets[0]), 4U);
  EXPECT_EQ(ElementsOf(buckets[4]), 2U);
}

TEST(BucketCut, ARestOfALargeTensorWaitsForNoOthersWhereItIsAQuarterOfABucket) {
  EXPECT_THAT(CutIntoBuckets(std::vector<size_t>{10, 3}, 8 * sizeof(float)),
              ElementsAre(ElementsAre(BucketSegment{0, 0, 8}), ElementsAre(BucketSegment{0, 8, 2}), ElementsAre(BucketSegment{1, 0, 3})));
  EXPECT_THAT(CutIntoBuckets(std::vector<size_t>{9, 3}, 8 * sizeof(float)),
              ElementsAre(ElementsAre(BucketSegment{0, 0, 8}), ElementsAre(BucketSegment{0, 8, 1}, BucketSegment{1, 0, 3})));
}

TEST(BucketCut, NothingIsInNoBucket) {
  EXPECT_THAT(CutIntoBuckets({}, 4), IsEmpty());
  EXPECT_THAT(CutIntoBuckets(std::vector<size_t>{0, 0}, 4), IsEmpty());
}

}  // namespace
}  // namespace trainyard::engine
