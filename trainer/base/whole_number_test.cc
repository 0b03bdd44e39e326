#include "trainer/base/whole_number.h"

#include <gtest/gtest.h>

#include <limits>

namespace trainyard::engine {
namespace {

using nlohmann::json;

TEST(WholeNumber, IsWhatAnIntegerHoldsExactly) {
  EXPECT_EQ(WholeNumber(json::parse("-3")), -3);
  EXPECT_EQ(WholeNumber(json::parse("3.0")), 3);
  EXPECT_EQ(WholeNumber(json::parse("1e3")), 1000);
  EXPECT_EQ(WholeNumber(json::parse("9223372036854775807")), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(WholeNumber(nlohmann::ordered_json(7)), 7);
  for (const char* const text : {"3.5", "1e300", "-1e300", "9223372036854775808", "1e19", "\"3\"", "null", "[3]", "true"}) {
    EXPECT_FALSE(WholeNumber(json::parse(text)).has_value()) << text;
  }
  EXPECT_FALSE(WholeNumber(json(std::numeric_limits<double>::quiet_NaN())).has_value());
}

TEST(WholeNumber, WhereAReaderThrowsItNamesTheType) {
  EXPECT_EQ(GetWhole<int>(json(7)), 7);
  EXPECT_THROW(GetWhole<int>(json(int64_t{1} << 31)), json::type_error);
  EXPECT_THROW(GetWhole<uint64_t>(json(-1)), json::type_error);
  EXPECT_THROW(GetWhole<int64_t>(json(1e300)), json::type_error);
  EXPECT_EQ(WholeField(json{{"a", 1}}, "b", 9), 9);
  EXPECT_THROW(WholeField(json{{"a", "x"}}, "a", 9), json::type_error);
}

}  // namespace
}  // namespace trainyard::engine
