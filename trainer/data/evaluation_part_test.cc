#include "trainer/data/evaluation_part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace trainyard::engine {
namespace {

struct Examples {
  std::vector<uint64_t> keys;
  std::vector<int32_t> groups;
};

// `each` examples of every group.
Examples Make(int groups, int each, uint64_t seed) {
  Examples examples;
  for (int i = 0; i < groups * each; ++i) {
    examples.keys.push_back(SplitKey(seed, "example " + std::to_string(i)));
    examples.groups.push_back(i % groups);
  }
  return examples;
}

TEST(EvaluationPart, EveryGroupGivesItsShare) {
  const Examples examples = Make(3, 50, 1);
  const std::vector<bool> evaluation = EvaluationPart(examples.keys, examples.groups, 0.2);
  std::vector<int> counts(3);
  for (size_t i = 0; i < evaluation.size(); ++i) counts[examples.groups[i]] += evaluation[i] ? 1 : 0;
  EXPECT_EQ(counts, (std::vector<int>{10, 10, 10}));
}

TEST(EvaluationPart, IsAFunctionOfTheSeed) {
  const auto part = [](uint64_t seed) {
    const Examples examples = Make(2, 40, seed);
    return EvaluationPart(examples.keys, examples.groups, 0.5);
  };
  EXPECT_EQ(part(1), part(1));
  EXPECT_NE(part(1), part(2));
}

TEST(EvaluationPart, TrainingKeepsAnExampleOfEveryGroup) {
  const Examples examples = Make(4, 1, 1);
  const std::vector<bool> evaluation = EvaluationPart(examples.keys, examples.groups, 0.99);
  EXPECT_TRUE(std::ranges::none_of(evaluation, [](bool chosen) { return chosen; }));
  EXPECT_TRUE(EvaluationPart({}, {}, 0.5).empty());
}

TEST(EvaluationPart, HasTheSmallestKeysOfEveryGroup) {
  const std::vector<uint64_t> keys = {9, 5, 1, 7, 3, 3, 8, 2};
  const std::vector<int32_t> groups = {4, 0, 4, 0, 4, 0, 4, 0};
  EXPECT_EQ(EvaluationPart(keys, groups, 0.5), (std::vector<bool>{false, false, true, false, true, true, false, true}));
  const std::vector<uint64_t> equal(4, 1);
  EXPECT_EQ(EvaluationPart(equal, std::vector<int32_t>(4, 0), 0.5), (std::vector<bool>{true, true, false, false})) << "the first of them";
  EXPECT_EQ(EvaluationPart(keys, groups, 0), std::vector<bool>(8, false));
}

TEST(EvaluationPart, AnAddedExampleMovesAtMostOneOther) {
  Examples examples = Make(1, 100, 1);
  const std::vector<bool> before = EvaluationPart(examples.keys, examples.groups, 0.3);
  examples.keys.push_back(SplitKey(1, "one more"));
  examples.groups.push_back(0);
  const std::vector<bool> after = EvaluationPart(examples.keys, examples.groups, 0.3);
  int moved = 0;
  for (size_t i = 0; i < before.size(); ++i) moved += before[i] != after[i] ? 1 : 0;
  EXPECT_LE(moved, 1);
}

}  // namespace
}  // namespace trainyard::engine
