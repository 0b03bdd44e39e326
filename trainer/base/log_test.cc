#include "trainer/base/log.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

TEST(LogTest, ALineIsNewOnceUntilManyOthersHaveCome) {
  EXPECT_TRUE(IsNewLine("a"));
  EXPECT_TRUE(IsNewLine("b"));
  EXPECT_FALSE(IsNewLine("a"));
  EXPECT_FALSE(IsNewLine("b"));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(IsNewLine(fmt::format("line {}", i)));
  EXPECT_TRUE(IsNewLine("a"));
  EXPECT_FALSE(IsNewLine("line 999"));
}

}  // namespace
}  // namespace trainyard::engine
