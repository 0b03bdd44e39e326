#include "trainer/kvstore/lent_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "trainer/kvstore/test_payload.h"

namespace trainyard::engine {
namespace {

TEST(LentValuesTest, WhatIsLentStaysAsItWas) {
  LentValues values(3);
  std::ranges::fill(values.Write(), 1.0F);
  const Payload old = values.Lend();
  std::ranges::fill(values.Write().first(2), 2.0F);
  EXPECT_THAT(ValuesOf(old), testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(values.Read(), testing::ElementsAre(2, 2, 1));
}

TEST(LentValuesTest, WithoutReadersItWritesInPlace) {
  LentValues values(3);
  const float* const place = values.Write().data();
  Payload first = values.Lend();
  const Payload second = values.Lend();
  EXPECT_EQ(first.pieces()[0].data(), second.pieces()[0].data());
  first = {};
  EXPECT_NE(values.Write().data(), place) << "the second is still out";
  const float* const now = values.Write().data();
  EXPECT_EQ(values.Write().data(), now);
}

TEST(LentValuesTest, APayloadOutlivesTheValues) {
  Payload payload;
  {
    LentValues values(2);
    std::ranges::fill(values.Write(), 5.0F);
    payload = values.Lend();
  }
  EXPECT_THAT(ValuesOf(payload), testing::ElementsAre(5, 5));
}

}  // namespace
}  // namespace trainyard::engine
