#include "trainer/kvstore/round_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "trainer/kvstore/test_payload.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

TEST(RoundMemoriesTest, AnUpdateTakesTheMemoryOfTheOneBefore) {
  RoundMemories memories(/*workers=*/3, /*block=*/8);
  const RoundMemory* const first = memories.Take().get();
  EXPECT_EQ(memories.Take().get(), first);
}

TEST(RoundMemoriesTest, UpdatesAtOneTimeHaveAMemoryEachAndBothComeBack) {
  RoundMemories memories(/*workers=*/3, /*block=*/8);
  std::shared_ptr<RoundMemory> a = memories.Take();
  std::shared_ptr<RoundMemory> b = memories.Take();
  const std::array<RoundMemory*, 2> known = {a.get(), b.get()};
  EXPECT_NE(known[0], known[1]);
  a.reset();
  b.reset();
  a = memories.Take();
  b = memories.Take();
  EXPECT_THAT(known, testing::UnorderedElementsAre(a.get(), b.get()));
}

TEST(RoundMemoriesTest, AMemoryMayOutliveThem) {
  std::shared_ptr<RoundMemory> memory = RoundMemories(/*workers=*/1, /*block=*/8).Take();
  EXPECT_EQ(memory->sum.ranks(), 1U);
}

TEST(RoundSumTest, WhatTheRoundBeforeLeftIsInNoMean) {
  const ParameterSpec spec{.name = "w", .shape = Shape({4}), .trainable = true};
  const PartRows part(spec, Part{.count = 4});
  RoundMemories memories(/*workers=*/3, /*block=*/2);
  const auto means = [&](std::vector<PushedGradient> pushed) {
    RoundSum sum(std::array<const PushedGradient*, 3>{&pushed[0], &pushed[1], &pushed[2]}, part, RoundSum::Mean::kOfThoseWithExamples,
                 /*devices=*/1, memories.Take());
    std::vector<float> all;
    for (int block = 0; block < 2; ++block) {
      const std::span<const float> mean = sum.Next(2);
      all.insert(all.end(), mean.begin(), mean.end());
    }
    return all;
  };
  PushedGradient nothing;
  nothing.addends = 0;
  EXPECT_THAT(means({FloatPayload({1, 2, 3, 4}), FloatPayload({3, 4, 5, 6}), FloatPayload({5, 9, 1, 2})}), ElementsAre(3, 5, 3, 4));
  EXPECT_THAT(means({nothing, FloatPayload({1, 2, 3, 4}), FloatPayload({3, 4, 5, 8})}), ElementsAre(2, 3, 4, 6));
  EXPECT_THAT(means({nothing, FloatPayload({1, 2, 3, 4}), nothing}), ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace trainyard::engine
