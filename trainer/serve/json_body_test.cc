#include "trainer/serve/json_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNan;
using Kind = JsonValue::Kind;

std::string ErrorOf(const std::string& body) {
  const auto parsed = ParseJsonBody(body);
  EXPECT_FALSE(parsed.ok()) << body;
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

TEST(JsonBody, NestedListsOfNumbersAreOneVectorWithAShape) {
  const auto body = ParseJsonBody(R"({"x": [[1, 2.5, -3], [4, 5, 6e2]], "y": [], "z": [[[7]]]})");
  ASSERT_TRUE(body.ok()) << body.status();
  const JsonValue* const x = body->Find("x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->kind, Kind::kNumbers);
  EXPECT_THAT(x->shape, ElementsAre(2, 3));
  EXPECT_THAT(x->numbers, ElementsAre(1, 2.5, -3, 4, 5, 600));
  EXPECT_THAT(body->Find("y")->shape, ElementsAre(0));
  EXPECT_THAT(body->Find("z")->shape, ElementsAre(1, 1, 1));
  EXPECT_EQ(body->Find("w"), nullptr);
}

TEST(JsonBody, ListsOfOtherThingsKeepTheirItems) {
  const auto body = ParseJsonBody(R"({"a": ["x", null, true], "b": [{"c": 1}, {"c": [2]}]})");
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->Find("a")->kind, Kind::kList);
  EXPECT_EQ(body->Find("a")->items[0].text, "x");
  EXPECT_EQ(body->Find("a")->items[1].kind, Kind::kNull);
  EXPECT_EQ(body->Find("b")->items[1].Find("c")->numbers, std::vector<double>{2});
}

TEST(JsonBody, NullsStandAmongNumbersAndAmongTexts) {
  const auto body = ParseJsonBody(R"({"a": [1, null, 3], "b": [null, 2], "c": [null, null, "x"], "d": [[null], ["x"]], "e": [["x"], [null]],
    "f": [[null], [2]], "g": [null, null], "h": [null, {"b64": ""}]})");
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_THAT(body->Find("a")->numbers, ElementsAre(1, IsNan(), 3));
  EXPECT_THAT(body->Find("b")->numbers, ElementsAre(IsNan(), 2));
  EXPECT_EQ(body->Find("c")->items[1].kind, Kind::kNull);
  EXPECT_EQ(body->Find("c")->items[2].text, "x");
  EXPECT_EQ(body->Find("d")->items[0].items[0].kind, Kind::kNull);
  EXPECT_EQ(body->Find("e")->items[1].items[0].kind, Kind::kNull);
  EXPECT_THAT(body->Find("f")->numbers, ElementsAre(IsNan(), 2));
  EXPECT_THAT(body->Find("f")->shape, ElementsAre(2, 1));
  EXPECT_EQ(body->Find("g")->items.size(), 2U);
  EXPECT_EQ(body->Find("h")->items.size(), 2U);
  EXPECT_EQ(ErrorOf(R"({"x": [[1], null]})"), "x[1]: found null, expected a list as those before it");
  EXPECT_EQ(ErrorOf(R"({"x": [null, 1, "c"]})"), "x[2]: found \"c\", expected a number as those before it");
}

TEST(JsonBody, ErrorsNameThePlace) {
  EXPECT_EQ(ErrorOf(R"({"x": [[1, 2], [3]]})"), "x[1]: found a list of shape [1], expected one of shape [2] as those before it");
  EXPECT_EQ(ErrorOf(R"({"x": [[1, 2], 3]})"), "x[1]: found a number, expected a list as those before it");
  EXPECT_EQ(ErrorOf(R"({"x": [1, 2, "c"]})"), "x[2]: found \"c\", expected a number as those before it");
  EXPECT_EQ(ErrorOf(R"({"x": ["c", 1]})"), "x[1]: found a number, expected a value as those before it");
  EXPECT_EQ(ErrorOf(R"({"x": ["c", [1]]})"), "x[1]: found a list of numbers, expected a value as those before it");
  EXPECT_EQ(ErrorOf(R"({"a": {"b": [{"c": 1, "c": 2}]}})"), "a.b[0].c: the field is given twice");
  EXPECT_EQ(ErrorOf("[1]"), "the body: found a list, expected an object");
  EXPECT_EQ(ErrorOf("3"), "the body: found 3, expected an object");
}

TEST(JsonBody, WhatIsNoJsonIsRefusedAtItsByte) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("found invalid JSON at byte 1"));
  EXPECT_THAT(ErrorOf("{\"x\": [1, 2"), HasSubstr("found invalid JSON at byte"));
  EXPECT_THAT(ErrorOf("{\"x\": NaN}"), HasSubstr("found invalid JSON at byte"));
  EXPECT_THAT(ErrorOf("{\"x\": 1e999}"), HasSubstr("found invalid JSON"));
  EXPECT_THAT(ErrorOf("{\"x\": \"\xff\"}"), HasSubstr("found invalid JSON"));
  EXPECT_THAT(ErrorOf("{} {}"), HasSubstr("found invalid JSON"));
}

TEST(JsonBody, DepthAndNumberOfValuesAreBounded) {
  EXPECT_THAT(ErrorOf("{\"x\": " + std::string(100'000, '[')), HasSubstr("lists and objects in each other"));
  std::string many = "{\"x\": [\"\"";
  for (size_t i = 0; i < 2 * MostJsonValues(0); ++i) many += ",\"\"";
  EXPECT_THAT(ErrorOf(many + "]}"), HasSubstr("values, the most of a body of 393227 bytes, beside numbers in lists, which do not count"));
}

TEST(JsonBody, ALargeTableHasManyValues) {
  constexpr size_t kColumns = 1000;
  constexpr size_t kRows = 256;
  std::string row = "{\"column 0\": 0.25";
  for (size_t i = 1; i < kColumns; ++i) row += ", \"column " + std::to_string(i) + "\": 0.25";
  std::string table = "{\"instances\": [" + row + "}";
  for (size_t i = 1; i < kRows; ++i) table += ", " + row + "}";
  const auto body = ParseJsonBody(table + "]}");
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->Find("instances")->items.back().fields.size(), kColumns);
}

TEST(JsonBody, TextsOfAnswersAreUtf8) { EXPECT_EQ(JsonText({{"error", "found \xff"}}), "{\"error\":\"found \xEF\xBF\xBD\"}"); }

}  // namespace
}  // namespace trainyard::engine
