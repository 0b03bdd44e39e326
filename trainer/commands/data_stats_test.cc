#include "trainer/commands/data_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "trainer/data/memory_dataset.h"
#include "trainer/data/text/text_dataset.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
Buffer BufferOf(const std::vector<T>& values) {
  Buffer buffer(values.size() * sizeof(T));
  std::memcpy(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

DatasetInfo InfoOf(int64_t examples, const Shape& shape) {
  DatasetInfo info{.name = "x in a.npz", .examples = examples};
  info.example_shape = shape;
  return info;
}

TEST(DataStatsTest, AnExampleWithNumbersThatAreNotFiniteIsNamedAndLeftOut) {
  const MemoryDataset dataset(InfoOf(3, {2}), BufferOf<float>({1, 3, NAN, INFINITY, 5, 7}), BufferOf<int32_t>({0, 1, 0}));
  const DataStats stats = StatsOf(dataset, 2);
  EXPECT_EQ(stats.damaged, 1);
  EXPECT_THAT(stats.errors, ElementsAre("x in a.npz: example 1 has numbers that are not finite: 2 of 2"));
  EXPECT_EQ(stats.channels.at(0).mean, 4);
  EXPECT_THAT(stats.class_counts, ElementsAre(2, 0));
  EXPECT_THAT(StatsText("train", stats, {"cat", "dog"}),
              AllOf(HasSubstr("mean 4.0000  std 2.2361  from 1.0000 to 7.0000"), HasSubstr("1 example is damaged:")));
}

TEST(DataStatsTest, SmallNumbersKeepTheirDigits) {
  const MemoryDataset dataset(InfoOf(2, {1}), BufferOf<float>({1e-7F, 3e-7F}), BufferOf<int32_t>({0, 1}));
  EXPECT_THAT(StatsText("train", StatsOf(dataset, 2), {"cat", "dog"}), HasSubstr("mean 2e-07  std 1e-07  from 1e-07 to 3e-07"));
}

TEST(DataStatsTest, AllTokensOfATextAreCounted) {
  const std::string path = ::testing::TempDir() + "data_stats_text.txt";
  std::ofstream(path) << "abcabcabca";  // ten characters
  const ExpectedData expected{.example_shape = {4}, .classes = 5, .target_shape = {}, .vocabulary = 5, .label_shape = {4}};
  const auto text = OpenTrainingText({.paths = {path}}, {.tokens = TokenKind::kCharacters, .vocabulary = 0, .expected = expected});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(StatsText("train", StatsOf(**text, 5), {}), "train: 10 tokens, 4 different ones, of " + path + "\n");
}

TEST(DataStatsTest, ALabelThatIsNotFiniteIsNamed) {
  DatasetInfo info = InfoOf(2, {1});
  info.y_dtype = DType::kF32;
  info.label_shape = {1};
  const MemoryDataset dataset(std::move(info), BufferOf<float>({1, 2}), BufferOf<float>({NAN, 1}));
  EXPECT_THAT(StatsOf(dataset, 0).errors, ElementsAre("x in a.npz: example 0 has numbers in its label that are not finite: 1 of 1"));
}

}  // namespace
}  // namespace trainyard::engine
