#include "trainer/data/csv/cell_number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST(NumberOf, TakesFiniteNumbersOnly) {
  EXPECT_EQ(*NumberOf("-1.5e3"), -1500);
  EXPECT_EQ(*NumberOf("+1"), 1);
  for (const char* cell : {"", "+", "+-1", "++1", "inf", "nan", "1,5", "0x10", "1e999", "12 apples", "1.2.3"}) {
    EXPECT_FALSE(NumberOf(cell).ok()) << cell;
  }
}

TEST(NumberOf, TakesADecimalComma) {
  EXPECT_EQ(*NumberOf("-1,5e3", ','), -1500);
  EXPECT_EQ(*NumberOf("7", ','), 7);
  EXPECT_EQ(*NumberOf(",5", ','), 0.5);
  for (const char* cell : {"", ",", "1.5", "1.000,5", "1,2,3"}) EXPECT_FALSE(NumberOf(cell, ',').ok()) << cell;
  EXPECT_THAT(std::string(NumberOf("1.5", ',').status().message()), HasSubstr("found \"1.5\", expected a finite number; is the column"));
}

}  // namespace
}  // namespace trainyard::engine
