#include "operator/kube/list_decoder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

class ListDecoderTest : public testing::Test {
 protected:
  ListDecoder Decoder(size_t max_item_bytes = 1000, absl::Status status = absl::OkStatus()) {
    return ListDecoder(
        "list pods", std::nullopt, max_item_bytes,
        [this, status](Json&& item) {
          items_.push_back(item.dump());
          return status;
        },
        [this](const Unreadable& object) { unreadable_.push_back(object); });
  }
  std::vector<std::string> items_;
  std::vector<Unreadable> unreadable_;
};

constexpr char kList[] =
    R"({"kind":"items","metadata":{"resourceVersion":"7","items":[0]},"items":[ {"metadata":{"name":"a","managedFields":[]},"items":[1,{"x":"],}\""}]} ,)"
    R"({"b":2}],"z":[1,"items"]})";

TEST_F(ListDecoderTest, ItemsComeOutWhereverTheBodyIsCutAndTheRestIsTheList) {
  const std::string text = kList;
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    items_.clear();
    ListDecoder decoder = Decoder();
    decoder.Begin();
    for (size_t at = 0; at < text.size(); at += piece) ASSERT_TRUE(decoder.Take(std::string_view(text).substr(at, piece)));
    const auto list = decoder.Finish();
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_EQ(items_, (std::vector<std::string>{R"({"items":[1,{"x":"],}\""}],"metadata":{"name":"a"}})", R"({"b":2})"}));
    EXPECT_EQ((*list)["metadata"]["resourceVersion"], "7");
    EXPECT_TRUE((*list)["items"].empty());
  }
}

TEST_F(ListDecoderTest, AnItemThatCannotBeReadIsToldByItsNameAndTheOthersFollow) {
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  const std::string list = R"({"items":[{"b":1},{"metadata":{"namespace":"n","name":"deep"},"spec":)" + deep +
                           R"(},{"metadata":{"namespace":"n","name":"huge","uid":"u","resourceVersion":"9"},"spec":")" +
                           std::string(100000, 'x') + R"("},7,{"metadata":{"name":"odd"},"spec":tru},"x",{"c":1}],"metadata":{}})";
  ListDecoder decoder = Decoder(/*max_item_bytes=*/20000);
  ASSERT_TRUE(decoder.Take(list));
  ASSERT_TRUE(decoder.Finish().ok());
  EXPECT_EQ(items_, (std::vector<std::string>{R"({"b":1})", R"({"c":1})"}));
  ASSERT_EQ(unreadable_.size(), 5U);
  EXPECT_EQ(unreadable_[0].Key(), "n/deep");
  EXPECT_NE(unreadable_[0].problem.find("nested too deeply"), std::string::npos) << unreadable_[0].problem;
  EXPECT_EQ(unreadable_[1].Key(), "n/huge");
  EXPECT_EQ(unreadable_[1].problem, "longer than 20000 bytes");
  EXPECT_EQ(unreadable_[1].resource_version, "9");
  EXPECT_EQ(unreadable_[3].Key(), "odd");
}

TEST_F(ListDecoderTest, AnErrorOfTheHandlerEndsTheList) {
  ListDecoder decoder = Decoder(1000, absl::AbortedError("enough"));
  EXPECT_FALSE(decoder.Take(R"({"items":[{},{},{}]})"));
  EXPECT_TRUE(absl::IsAborted(decoder.Finish().status()));
  EXPECT_EQ(items_.size(), 1U);
}

TEST_F(ListDecoderTest, WhatIsNoListIsDataLoss) {
  for (const std::string& text : {std::string(), std::string("[]"), std::string("garbage"), std::string(R"({"items":[{"a":1})"),
                                  std::string(R"({"items":[{}]]})"), "{\"a\":\"" + std::string(2 << 20, 'x') + "\"}"}) {
    ListDecoder decoder = Decoder();
    (void)decoder.Take(text);
    EXPECT_TRUE(absl::IsDataLoss(decoder.Finish().status())) << text.substr(0, 30);
  }
}

TEST_F(ListDecoderTest, ASecondAnswerBeginsAfresh) {
  ListDecoder decoder = Decoder();
  decoder.Begin();
  ASSERT_TRUE(decoder.Take(R"({"items":[{"half":")"));
  decoder.Begin();
  ASSERT_TRUE(decoder.Take(R"({"items":[{"a":1}]})"));
  EXPECT_TRUE(decoder.Finish().ok());
  EXPECT_EQ(items_, std::vector<std::string>{R"({"a":1})"});
}

}  // namespace
}  // namespace trainyard::control
