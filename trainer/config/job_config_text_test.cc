#include "trainer/config/job_config_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json Yaml(std::string_view text) {
  auto read = ReadYaml(text, "job.yaml");
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? read->value : json();
}
std::string BadYaml(std::string_view text) {
  const auto read = ReadYaml(text, "job.yaml");
  EXPECT_FALSE(read.ok()) << text;
  return std::string(read.status().message());
}
std::string BadJson(std::string_view text) {
  const auto read = ReadJson(text, "job.json");
  EXPECT_FALSE(read.ok()) << text;
  return std::string(read.status().message());
}

TEST(JobConfigTextTest, PlainScalarsHaveTheirTypes) {
  EXPECT_EQ(Yaml("[1, -2, +3, 0x1F, 1.5, .5, 1e-3, true, False, null, ~, text, 18446744073709551615]"),
            json::parse(R"([1, -2, 3, 31, 1.5, 0.5, 0.001, true, false, null, null, "text", 18446744073709551615])"));
}

TEST(JobConfigTextTest, QuotedAndTaggedTextsStayTexts) {
  EXPECT_EQ(Yaml(R"(['1', "true", !!str 2, ''])"), json::parse(R"(["1", "true", "2", ""])"));
}

TEST(JobConfigTextTest, WordsThatOldYamlTakesForSomethingElseStayTexts) {
  EXPECT_EQ(Yaml("[yes, no, on, off, 012, 1_000, .inf, .nan, nan, infinity, +-1, 1e999, -]"),
            json::parse(R"(["yes", "no", "on", "off", "012", "1_000", ".inf", ".nan", "nan", "infinity", "+-1", "1e999", "-"])"));
}

TEST(JobConfigTextTest, LinesOfFieldsAndItemsAreKept) {
  const auto read = ReadYaml("a: 1\nb:\n  - x\n  - c: 2\n", "job.yaml");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->lines.at("a"), 1);
  EXPECT_EQ(read->lines.at("b"), 2);
  EXPECT_EQ(read->lines.at("b[0]"), 3);
  EXPECT_EQ(read->lines.at("b[1].c"), 4);
}

TEST(JobConfigTextTest, AliasesStandForWhatTheyName) {
  EXPECT_EQ(Yaml("a: &x {n: 1}\nb: *x\nc: [*x]"), json::parse(R"({"a": {"n": 1}, "b": {"n": 1}, "c": [{"n": 1}]})"));
}

TEST(JobConfigTextTest, AliasesThatExpandWithoutEndAreRefused) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name <= 'j'; ++name) {
    bomb += std::string(1, name) + ": &" + name + " [";
    for (int i = 0; i < 10; ++i) bomb += std::string(i > 0 ? ", *" : "*") + static_cast<char>(name - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(BadYaml(bomb), HasSubstr("found more values than any job has"));
  const std::string text(100'000, 'x');
  std::string copies = "a: &a " + text + "\nb: [";
  for (int i = 0; i < 1000; ++i) copies += i > 0 ? ", *a" : "*a";
  EXPECT_THAT(BadYaml(copies + "]"), HasSubstr("found more values than any job has"));
  EXPECT_FALSE(ReadYaml("a: &a [*a]", "job.yaml").ok());
}

TEST(JobConfigTextTest, DeepNestingIsRefused) {
  EXPECT_THAT(BadYaml(std::string(70, '[') + std::string(70, ']')), HasSubstr("more than 64 levels"));
  EXPECT_FALSE(ReadYaml(std::string(500'000, '['), "job.yaml").ok());
  EXPECT_THAT(BadJson(std::string(70, '[') + std::string(70, ']')), HasSubstr("more than 64 levels"));
  EXPECT_FALSE(ReadJson(std::string(500'000, '['), "job.json").ok());
}

TEST(JobConfigTextTest, ALargeTextIsRefusedUnread) {
  EXPECT_THAT(BadYaml(std::string(kMaxJobBytes + 1, ' ')), HasSubstr("found 1048577 bytes, at most 1048576 are read"));
  EXPECT_THAT(BadJson(std::string(kMaxJobBytes + 1, ' ')), HasSubstr("found 1048577 bytes"));
}

TEST(JobConfigTextTest, AFieldGivenTwiceIsRefused) {
  EXPECT_THAT(BadYaml("a: 1\nb: 2\na: 3\n"), HasSubstr("job.yaml:3: not a job file: field \"a\" is given twice"));
  EXPECT_THAT(BadJson(R"({"a": 1, "a": 2})"), HasSubstr("field \"a\" is given twice"));
  EXPECT_TRUE(ReadJson(R"({"a": {"a": 1}, "b": {"a": 2}})", "job.json").ok());
}

TEST(JobConfigTextTest, WhatIsNotYamlOrJsonIsToldWithItsPlace) {
  EXPECT_THAT(BadYaml("a: 1\nb: [1, 2\n"), HasSubstr("job.yaml:3: "));
  EXPECT_THAT(BadJson("{\"a\": }"), HasSubstr("job.json: not JSON: "));
}

TEST(JobConfigTextTest, TwoDocumentsAreRefusedButAnEmptyOneIsNot) {
  EXPECT_THAT(BadYaml("a: 1\n---\nb: 2\n"), HasSubstr("found a second document"));
  EXPECT_THAT(BadYaml("a: 1\n---\nb\n"), HasSubstr("found a second document"));
  EXPECT_THAT(BadYaml("a: 1\n---\n---\n- b\n"), HasSubstr("found a second document"));
  for (const char* text : {"---\na: 1\n", "a: 1\n---\n", "---\na: 1\n---\n# the end\n...\n"}) {
    EXPECT_EQ(Yaml(text), json::parse(R"({"a": 1})")) << text;
  }
}

// yaml-cpp gives documents without text for a comma, and never comes to the end.
TEST(JobConfigTextTest, ACommaOrABracketOutsideOfAnyListIsRefused) {
  for (const char* text : {",", "{a: 1}, b", "[1], [2]", "---\n,\n", "---\n---\n- a\n,"}) {
    EXPECT_THAT(BadYaml(text), HasSubstr("found a comma or a colon outside of any list and object")) << text;
  }
  EXPECT_THAT(BadYaml("{a: 1,\n b: 2}\n, c"), HasSubstr("job.yaml:3: "));
  for (const char* text : {"}", "]", "a: 1\n}\n", "{a: {b: 1}}}", "---\n}\n"}) {
    EXPECT_FALSE(ReadYaml(text, "job.yaml").ok()) << text;
  }
}

TEST(JobConfigTextTest, NamesThatAreNoTextsAreRefused) {
  EXPECT_THAT(BadYaml("? [a]\n: 1\n"), HasSubstr("expected a field name"));
  EXPECT_THAT(BadYaml("{" + std::string(300, 'a') + ": 1}"), HasSubstr("a field name of 300 bytes"));
  EXPECT_THAT(BadYaml("a: !!binary aGk="), HasSubstr("found the tag tag:yaml.org,2002:binary"));
}

}  // namespace
}  // namespace trainyard::engine
