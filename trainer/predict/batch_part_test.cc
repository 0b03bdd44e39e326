#include "trainer/predict/batch_part.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

constexpr int64_t kCache = 2 << 20;

TEST(BatchPart, ABatchThatFitsTheCacheIsOnePart) {
  EXPECT_EQ(BatchPart(32, 1, {.parameters = 1'000'000, .values = 60'000, .arena = 60'000, .caches = kCache}), 32);
  EXPECT_EQ(BatchPart(1, 1, {.parameters = 1'000'000, .values = 60'000'000, .arena = 60'000'000, .caches = kCache}), 1);
}

// ResNet-56 v2: a part of four would leave the cache.
TEST(BatchPart, ADeepNetworkTakesTheLargestPartThatFits) {
  const PredictionBytes resnet = {.parameters = 6'694'952, .values = 5'715'072, .arena = 589'824, .caches = kCache};
  for (const int64_t examples : {4, 5, 32, 64}) EXPECT_EQ(BatchPart(examples, 1, resnet), 2) << examples;
  for (const int64_t examples : {1, 2, 3}) EXPECT_EQ(BatchPart(examples, 1, resnet), examples);
}

TEST(BatchPart, ThreadsHaveACacheAndExamplesEach) {
  PredictionBytes resnet = {.parameters = 6'694'952, .values = 5'715'072, .arena = 589'824, .caches = 2 * kCache};
  EXPECT_EQ(BatchPart(32, 2, resnet), 4);
  resnet.caches = 3 * kCache;
  EXPECT_EQ(BatchPart(32, 3, resnet), 6);
}

// The MNIST CNN: its dense layer is more than all values of an example.
TEST(BatchPart, ManyParametersAreReadForTheWholeBatch) {
  EXPECT_EQ(BatchPart(32, 1, {.parameters = 4'799'528, .values = 127'168, .arena = 123'392, .caches = kCache}), 32);
}

TEST(BatchPart, AnExampleThatDoesNotFitAloneIsNotParted) {
  EXPECT_EQ(BatchPart(32, 1, {.parameters = 1'000, .values = 50'000'000, .arena = 9'000'000, .caches = kCache}), 32);
}

}  // namespace
}  // namespace trainyard::engine
