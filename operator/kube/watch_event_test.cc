#include "operator/kube/watch_event.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/kube/errors.h"

namespace trainyard::control {
namespace {

class WatchDecoderTest : public testing::Test {
 protected:
  WatchDecoder Decoder(size_t max_line_bytes = 1000) {
    return WatchDecoder(
        "watch pods", std::nullopt, max_line_bytes,
        [this](WatchEventType type, nlohmann::json&& object) {
          seen_.push_back(std::string(WatchEventTypeName(type)) + " " + object.dump());
          return absl::OkStatus();
        },
        [this](const Unreadable& object) { unreadable_.push_back(object); });
  }
  std::vector<Unreadable> unreadable_;
  std::vector<std::string> seen_;
};

constexpr char kLines[] =
    "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n"
    "{\"type\":\"MODIFIED\",\"object\":{\"a\":2}}\n"
    "\n"
    "{\"type\":\"DELETED\",\"object\":{\"a\":3,\"metadata\":{\"name\":\"n\",\"labels\":{}}}}\n"
    "{\"type\":\"BOOKMARK\",\"object\":{\"a\":4}}\n";

TEST_F(WatchDecoderTest, EventsComeOutWhereverTheStreamIsCut) {
  const std::string text = kLines;
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    seen_.clear();
    WatchDecoder decoder = Decoder();
    for (size_t at = 0; at < text.size(); at += piece) ASSERT_TRUE(decoder.Feed(std::string_view(text).substr(at, piece)).ok());
    EXPECT_TRUE(decoder.Finish().ok());
    EXPECT_EQ(seen_, (std::vector<std::string>{"ADDED {\"a\":1}", "MODIFIED {\"a\":2}", "DELETED {\"metadata\":{\"name\":\"n\"}}",
                                               "BOOKMARK {\"a\":4}"}))
        << piece;
  }
}

TEST_F(WatchDecoderTest, AnErrorEventIsItsStatus) {
  WatchDecoder decoder = Decoder();
  const absl::Status status = decoder.Feed(
      "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too old resource version: 1 "
      "(5)\"}}\n");
  EXPECT_TRUE(IsExpired(status)) << status;
  EXPECT_NE(status.ToString().find("watch pods: 410 Expired: too old resource version"), std::string::npos) << status;
}

TEST_F(WatchDecoderTest, WhatIsNoEventIsDataLossThatQuotesIt) {
  for (const char* line :
       {"garbage", "{\"type\":\"ADDED\"}", "{\"object\":{}}", "{\"type\":1,\"object\":{}}", "{\"type\":\"ADDED\",\"object\":[]}",
        "{\"type\":\"SHINY\",\"object\":{}}", "\x01\x02", "{\"type\":\"ADDED\",\"object\":{}"}) {
    WatchDecoder decoder = Decoder();
    const absl::Status status = decoder.Feed(std::string(line) + "\n");
    EXPECT_TRUE(absl::IsDataLoss(status)) << line << ": " << status;
  }
  EXPECT_TRUE(seen_.empty());
}

TEST_F(WatchDecoderTest, AnEventThatCannotBeReadIsToldByItsNameAndTheNextFollows) {
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  const std::string meta = R"("metadata":{"annotations":{"name":"no"},"name":"bad","namespace":"n","resourceVersion":"8","uid":"u"})";
  for (const std::string& line : {R"({"type":"MODIFIED","object":{)" + meta + R"(,"spec":)" + deep + "}}",
                                  R"({"type":"MODIFIED","object":{)" + meta + R"(,"spec":tru}})",
                                  R"({"type":"MODIFIED","object":{)" + meta + R"(,"spec":")" + std::string(50000, 'x') + "\"}}",
                                  R"({"type":"SHINY","object":{)" + meta + "}}"}) {
    seen_.clear();
    unreadable_.clear();
    WatchDecoder decoder = Decoder(/*max_line_bytes=*/20000);
    ASSERT_TRUE(decoder.Feed(line).ok());
    ASSERT_TRUE(decoder.Feed("\n" + std::string(kLines)).ok());
    EXPECT_EQ(seen_.size(), 4U);
    ASSERT_EQ(unreadable_.size(), 1U) << line.substr(0, 100);
    EXPECT_EQ(unreadable_[0].Key(), "n/bad");
    EXPECT_EQ(unreadable_[0].resource_version, "8");
    EXPECT_FALSE(unreadable_[0].gone);
    EXPECT_FALSE(unreadable_[0].problem.empty());
  }
}

TEST_F(WatchDecoderTest, ALineWithoutEndIsBoundedAndWhenItEndsDataLoss) {
  WatchDecoder decoder = Decoder(/*max_line_bytes=*/100);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(decoder.Feed("0123456789").ok());
  EXPECT_NE(decoder.Finish().message().find("after 100 bytes"), absl::string_view::npos) << decoder.Finish();
  EXPECT_TRUE(absl::IsDataLoss(decoder.Feed("\n")));
}

TEST_F(WatchDecoderTest, AStreamThatEndsWithinAnEventIsToldApart) {
  WatchDecoder decoder = Decoder();
  ASSERT_TRUE(decoder.Feed("{\"type\":\"ADD").ok());
  EXPECT_TRUE(absl::IsUnavailable(decoder.Finish()));
}

TEST_F(WatchDecoderTest, TheHandlersErrorEndsTheWatch) {
  WatchDecoder decoder(
      "watch pods", std::nullopt, 1000, [](WatchEventType, nlohmann::json&&) { return absl::AbortedError("enough"); },
      [](const Unreadable&) {});
  EXPECT_TRUE(absl::IsAborted(decoder.Feed(kLines)));
}

}  // namespace
}  // namespace trainyard::control
