#include "trainer/base/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "trainer/base/parse_json.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Nested(int levels) { return std::string(levels, '[') + std::string(levels, ']'); }

constexpr size_t kMostNameBytes = 256;

absl::StatusOr<json> Parse(std::string_view text) { return ParseStrictJson(text, kMostNameBytes); }

std::string ErrorOf(const std::string& text) {
  const auto value = Parse(text);
  EXPECT_FALSE(value.ok()) << text;
  return std::string(value.status().message());
}

TEST(StrictJson, ReadsWhatNamesEachFieldOnce) {
  const char* const text = R"({"a": {"a": [1, -2, 0.5, true, null]}, "b": [{"a": "x"}, {"a": "y"}]})";
  const auto value = Parse(text);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, json::parse(text));
}

TEST(StrictJson, RefusesANameThatStandsTwiceInOneObject) {
  EXPECT_EQ(ErrorOf(R"({"a": 1, "a": 2})"), "field \"a\" is given twice");
  EXPECT_EQ(ErrorOf(R"([{"b": {"a": 1, "\u0061": {}}}])"), "field \"a\" is given twice");
}

TEST(StrictJson, RefusesALongName) {
  EXPECT_TRUE(Parse("{\"" + std::string(kMostNameBytes, 'a') + "\": 1}").ok());
  EXPECT_EQ(ErrorOf("{\"" + std::string(kMostNameBytes + 1, 'a') + "\": 1}"), "found a field name of 257 bytes, at most 256 are read");
}

TEST(StrictJson, ReadsAsManyLevelsAsItSaysAndNoMore) {
  EXPECT_TRUE(Parse(Nested(kMostJsonLevels)).ok());
  EXPECT_EQ(ErrorOf(Nested(kMostJsonLevels + 1)), "found more than 64 levels of lists and objects");
  EXPECT_EQ(ErrorOf(std::string(1'000'000, '[')), "found more than 64 levels of lists and objects");
}

TEST(StrictJson, TellsWhereATextIsNotJson) {
  EXPECT_THAT(ErrorOf("{\"a\": }"), StartsWith("not JSON: parse error at line 1, column 7: "));
  EXPECT_THAT(ErrorOf("{\"a\":\n }"), HasSubstr("line 2"));
  for (const char* const text : {"", "{", "[1,]", "1 2", "nan"}) EXPECT_THAT(ErrorOf(text), HasSubstr("not JSON: "));
}

// A parser that looks at the whole list at the end of each item would take minutes.
TEST(StrictJson, ReadsALongListOfObjects) {
  std::string text = "[{}";
  for (int i = 1; i < 300'000; ++i) text += ",{}";
  const auto value = Parse(text + "]");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->size(), 300'000U);
}

}  // namespace
}  // namespace trainyard::engine
