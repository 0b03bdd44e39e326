#include "operator/kube/object_parser.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::control {
namespace {

using Json = nlohmann::json;
using Where = FieldFilter::Where;

const FieldFilter kWhole(std::nullopt, Where::kObject);

TEST(ObjectParser, ReadsWhatAnyJsonReaderReads) {
  const char* text = R"({"a":[1,-2,3.5,true,null,"x",[[]],{}],"b":{"c":{"d":"\u00e9\n"}},"e":[{"f":1},{"f":2}]})";
  const auto object = ParseObject(text, kWhole);
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object, Json::parse(text));
}

TEST(ObjectParser, ReadsOfFieldsWhatIsAskedFor) {
  const char* text = R"({"kind":"Pod","metadata":{"name":"a","managedFields":[{"f:x":{"y":[1,{"z":{}}]}}],"uid":"u","annotations":{"k":"v"},
                         "ownerReferences":[{"apiVersion":"v","kind":"TrainingJob","name":"j","uid":"1","controller":true}]},
                         "spec":{"containers":[{"name":"c","env":[{"name":"e"}]},{"name":"d","env":"scalar"}],"volumes":null,"nodeName":"n"},
                         "status":{"state":{"deep":[{"er":1}]},"other":2}})";
  const auto object = ParseObject(text, FieldFilter(ReadFields({"spec.containers.name", "spec.nodeName", "status.state"}), Where::kObject));
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object, Json::parse(R"({"kind":"Pod","metadata":{"name":"a","uid":"u",
                         "ownerReferences":[{"kind":"TrainingJob","name":"j","uid":"1","controller":true}]},
                         "spec":{"containers":[{"name":"c"},{"name":"d"}],"nodeName":"n"},"status":{"state":{"deep":[{"er":1}]}}})"));
}

TEST(ObjectParser, OfNoFieldsWhatIdentifiesTheObjectIsLeft) {
  const auto object = ParseObject(R"({"apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"},"spec":{"x":1},"status":{}})",
                                  FieldFilter(ReadFields(std::in_place), Where::kObject));
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object, Json::parse(R"({"apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"}})"));
}

TEST(ObjectParser, OfAnEndOnlyTheIdentityIsReadAndNothingBehindIt) {
  const char* all = R"({"type":"DELETED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",)"
                    R"("managedFields":[{}]},"spec":)";
  const Json expected = {{"type", "DELETED"},
                         {"object", {{"metadata", {{"name", "a"}, {"namespace", "n"}, {"uid", "u"}, {"resourceVersion", "7"}}}}}};
  for (const char* rest : {"{}}}", "what is not looked at"}) {
    const auto event = ParseObject(std::string(all) + rest, FieldFilter::OfEventsThatTellOfAnEnd());
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(*event, expected);
  }
  // In any order, and not all of it.
  const auto event = ParseObject(R"({"object":{"spec":{"x":[1]},"metadata":{"uid":"u","labels":{},"name":"a"}},"type":"DELETED"})",
                                 FieldFilter::OfEventsThatTellOfAnEnd());
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(*event, (Json{{"type", "DELETED"}, {"object", {{"metadata", {{"name", "a"}, {"uid", "u"}}}}}}));
  EXPECT_FALSE(ParseObject(R"({"type":"DELETED","object":{"metadata":{"name":"a")", FieldFilter::OfEventsThatTellOfAnEnd()).ok());
}

TEST(ObjectParser, AFieldOfTheSameNameElsewhereStays) {
  const auto object = ParseObject(R"({"spec":{"metadata":{"managedFields":1}},"managedFields":2})", kWhole);
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(*object, Json::parse(R"({"spec":{"metadata":{"managedFields":1}},"managedFields":2})"));
}

TEST(ObjectParser, AnErrorWithinADroppedFieldIsStillFound) {
  EXPECT_FALSE(ParseObject(R"({"metadata":{"managedFields":[{}}})", kWhole).ok());
  EXPECT_FALSE(ParseObject(R"({"metadata":{"managedFields":"x)", kWhole).ok());
}

TEST(ObjectParser, BracketsAndQuotesWithinStringsAreText) {
  const auto object = ParseObject(R"({"metadata":{"managedFields":["}]\"{","\\"],"name":"a\"}]"},"b":"{["})", kWhole);
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object, Json::parse(R"({"metadata":{"name":"a\"}]"},"b":"{["})"));
}

TEST(ObjectParser, RefusesWhatIsNoObject) {
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += '[';
  for (const std::string& text :
       {std::string(""), std::string("[]"), std::string("1"), std::string("\"x\""), std::string("{"), std::string("{\"a\":}"),
        std::string("{} {}"), std::string("\xff\xfe"), std::string("{\"a\":\"\xff\"}"), std::string("{\"a\":1,}"), std::string("{\"a\" 1}"),
        std::string("{\"a\":[1 2]}"), std::string("{,}"), std::string("{\"a\":[1,]}"), std::string("{\"metadata\":[1,]}"), deep}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseObject(text, kWhole).status())) << text.substr(0, 50);
  }
}

}  // namespace
}  // namespace trainyard::control
