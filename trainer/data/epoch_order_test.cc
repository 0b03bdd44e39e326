#include "trainer/data/epoch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using Kind = ShuffleConfig::Kind;

std::vector<int64_t> Order(const EpochOrderOptions& options, int64_t begin, int64_t end, int64_t epoch = 0) {
  std::vector<int64_t> order;
  MakeEpochOrder(options, epoch, begin, end, order);
  return order;
}

std::vector<int64_t> Counting(int64_t begin, int64_t end) {
  std::vector<int64_t> all(static_cast<size_t>(end - begin));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

TEST(EpochOrder, FilesTakeTurnsAndThoseThatEndMakePlace) {
  EpochOrderOptions options{.files = {4, 2, 3}, .interleave = {.files = 2}, .shuffle = {.kind = Kind::kNone}};
  EXPECT_THAT(Order(options, 0, 9), ElementsAre(0, 4, 1, 5, 2, 6, 3, 7, 8));
  options.interleave.block = 2;
  EXPECT_THAT(Order(options, 0, 9), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7, 8));
  options.interleave = {.files = 9};
  EXPECT_THAT(Order(options, 0, 9), ElementsAre(0, 4, 6, 1, 5, 7, 2, 8, 3));
  options.interleave = {.files = 2};
  EXPECT_THAT(Order(options, 3, 8), ElementsAre(3, 4, 6, 5, 7)) << "parts of files";
  for (const int64_t files : {0, 1}) {
    options.interleave = {.files = files};
    EXPECT_THAT(Order(options, 0, 9), ElementsAreArray(Counting(0, 9))) << "one after the other";
  }
}

TEST(EpochOrder, ABufferReadsEveryExampleOnceAndNoneMuchTooEarly) {
  for (const int64_t buffer : {1, 2, 10, 99, 100, 1000}) {
    const EpochOrderOptions options{.shuffle = {.kind = Kind::kBuffer, .buffer = buffer}};
    std::vector<int64_t> order = Order(options, 0, 100);
    for (int64_t place = 0; place < 100; ++place) EXPECT_LT(order[place], place + buffer);
    if (buffer == 1) {
      EXPECT_THAT(order, ElementsAreArray(Counting(0, 100)));
    }
    if (buffer > 1) {
      EXPECT_NE(order, Counting(0, 100));
    }
    std::ranges::sort(order);
    EXPECT_THAT(order, ElementsAreArray(Counting(0, 100)));
  }
}

TEST(EpochOrder, IsAFunctionOfSeedEpochAndPart) {
  for (const ShuffleConfig& shuffle : {ShuffleConfig{.kind = Kind::kAll}, ShuffleConfig{.kind = Kind::kBuffer, .buffer = 8}}) {
    const EpochOrderOptions options{.shuffle = shuffle, .seed = 3};
    const EpochOrderOptions other{.shuffle = shuffle, .seed = 4};
    EXPECT_EQ(Order(options, 0, 50, 1), Order(options, 0, 50, 1));
    EXPECT_NE(Order(options, 0, 50, 1), Order(options, 0, 50, 2));
    EXPECT_NE(Order(options, 0, 50, 1), Order(other, 0, 50, 1));
    for (const int64_t begin : {1, 50}) {
      std::vector<int64_t> moved = Order(options, begin, begin + 50, 1);
      for (int64_t& example : moved) example -= begin;
      EXPECT_NE(Order(options, 0, 50, 1), moved) << "parts of workers would be shuffled alike";
    }
  }
}

}  // namespace
}  // namespace trainyard::engine
