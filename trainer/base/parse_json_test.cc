#include "trainer/base/parse_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::engine {
namespace {

using nlohmann::json;

std::string Lists(int levels) { return std::string(levels, '[') + std::string(levels, ']'); }

TEST(ParseJson, ReadsAsManyLevelsAsItSaysAndNoMore) {
  EXPECT_EQ(ParseJson(Lists(kMostJsonLevels)).dump(), Lists(kMostJsonLevels));
  EXPECT_TRUE(ParseJson(Lists(kMostJsonLevels + 1)).is_discarded());
  EXPECT_TRUE(ParseOrderedJson(Lists(kMostJsonLevels + 1)).is_discarded());
  EXPECT_TRUE(ParseJson(R"({"a": 1, "b": )" + Lists(1'000'000) + "}").is_discarded());
}

TEST(ParseJson, CountsNoBracketsInTexts) {
  const std::string brackets(1000, '[');
  EXPECT_EQ(ParseJson("[\"" + brackets + "\"]"), json::array({brackets}));
}

TEST(ParseJson, KnowsTheEndOfATextBehindEscapes) {
  const std::string deep = Lists(kMostJsonLevels);
  for (const char* const text : {R"("\"")", R"("\\")", R"("\\\"[")"}) {
    EXPECT_FALSE(ParseJson(std::string("{\"a\": ") + text + "}").is_discarded()) << text;
    EXPECT_TRUE(ParseJson(std::string("[") + text + ", " + deep + "]").is_discarded()) << text;
  }
}

TEST(ParseJson, ReadsALongListOfObjects) {
  std::string text = "[{}";
  for (int i = 1; i < 300'000; ++i) text += ",{}";
  EXPECT_EQ(ParseJson(text + "]").size(), 300'000U);
  EXPECT_EQ(ParseOrderedJson(text + "]").size(), 300'000U);
}

TEST(ParseJson, DiscardsWhatIsNotJson) {
  for (const char* const text : {"", "{", "[1,]", "1 2", "nan"}) {
    EXPECT_TRUE(ParseJson(text).is_discarded()) << text;
    EXPECT_TRUE(ParseOrderedJson(text).is_discarded()) << text;
  }
}

TEST(ParseJson, KeepsTheOrderOfFieldsWhereItIsAskedTo) {
  EXPECT_EQ(ParseOrderedJson(R"({"b": 1, "a": 2})").dump(), R"({"b":1,"a":2})");
  EXPECT_EQ(ParseJson(R"({"b": 1, "a": 2})").dump(), R"({"a":2,"b":1})");
}

}  // namespace
}  // namespace trainyard::engine
