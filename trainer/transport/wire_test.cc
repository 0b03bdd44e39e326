#include "trainer/transport/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "trainer/transport/framing.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

WireHeader SomeHeader() {
  WireHeader header;
  header.op = WireOp::kPush;
  header.flags = 0x01020304;
  header.epoch = 0x11121314;
  header.sender = 3;
  header.key = 7;
  header.part = 2;
  header.slot = 1;
  header.dtype = 0;
  header.step = 0x2122232425262728;
  header.offset = 4096;
  header.length = 0;
  header.fingerprint = 0xf1f2f3f4f5f6f7f8;
  return header;
}

std::string Bytes(const WireHeader& header) {
  const auto bytes = Encode(header);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::StatusOr<WireHeader> DecodeText(const std::string& text) {
  std::array<std::byte, kWireHeaderBytes> bytes;
  std::memcpy(bytes.data(), text.data(), bytes.size());
  return Decode(bytes);
}

// docs/wire.md, byte by byte: a change here is a change of the format and needs a new version.
TEST(Wire, TheHeaderLiesAsTheFormatSays) {
  const std::string expected(
      "TYRD"                               // magic
      "\x02\x00"                           // version
      "\x08\x00"                           // op: push
      "\x04\x03\x02\x01"                   // flags
      "\x14\x13\x12\x11"                   // epoch
      "\x03\x00\x00\x00"                   // sender
      "\x07\x00\x00\x00"                   // key
      "\x02\x00\x00\x00"                   // part
      "\x01\x00"                           // slot
      "\x00\x00"                           // dtype, codec
      "\x28\x27\x26\x25\x24\x23\x22\x21"   // step
      "\x00\x10\x00\x00\x00\x00\x00\x00"   // offset
      "\x00\x00\x00\x00"                   // length
      "\x00\x00\x00\x00"                   // crc
      "\xf8\xf7\xf6\xf5\xf4\xf3\xf2\xf1",  // fingerprint
      64);
  EXPECT_EQ(Bytes(SomeHeader()), expected);
  const absl::StatusOr<WireHeader> decoded = DecodeText(expected);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, SomeHeader());
}

TEST(Wire, ABadHeaderIsRefusedByField) {
  struct Case {
    size_t at;
    std::string bytes;
    std::string expected;
  };
  const Case cases[] = {
      {0, "GET ", "magic is 0x20544547, expected 0x44525954"},
      {4, {'\x01', '\0'}, "version is 0x1, expected 0x2"},
      {6, {'\0', '\0'}, "op is 0"},
      {6, {'\xff', '\xff'}, "op is 65535"},
      {30, {'\x06'}, "dtype is 6, expected 0 to 5 or 255"},
      {31, {'\x01'}, "codec is 0x1"},
      {48, {'\x01', '\0', '\x10', '\0'}, "length is 1048577 bytes, expected at most 1048576"},
      {52, {'\x01'}, "crc is 0x1"},
  };
  for (const Case& test : cases) {
    std::string text = Bytes(SomeHeader());
    text.replace(test.at, test.bytes.size(), test.bytes);
    const absl::Status status = DecodeText(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.expected));
  }
}

Payload InPiecesOf(const std::string& text, size_t length) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  std::vector<std::span<const std::byte>> pieces;
  for (size_t at = 0; at < bytes.size(); at += length) pieces.push_back(bytes.subspan(at, std::min(length, bytes.size() - at)));
  return {std::move(pieces), nullptr};
}

TEST(Framing, RecordsAreFoundWhereverTheMessageIsCut) {
  std::string text;
  for (const std::string& payload : {std::string(), std::string("abc"), std::string("0123456789")}) {
    WireHeader header = SomeHeader();
    header.length = static_cast<uint32_t>(payload.size());
    text += Bytes(header) + payload;
  }
  for (const size_t length : {1, 2, 63, 64, 65, 1000}) {
    const absl::StatusOr<std::vector<Record>> records = ParseMessage(InPiecesOf(text, length));
    ASSERT_TRUE(records.ok()) << records.status();
    ASSERT_EQ(records->size(), 3U);
    EXPECT_EQ((*records)[0].payload.ToString(), "");
    EXPECT_EQ((*records)[1].payload.ToString(), "abc");
    EXPECT_EQ((*records)[2].payload.ToString(), "0123456789");
  }
}

TEST(Framing, ATruncatedMessageIsRefused) {
  WireHeader header = SomeHeader();
  header.length = 10;
  const std::string text = Bytes(header) + "0123456789";
  for (size_t length = 1; length < text.size(); ++length) {
    const std::string cut = text.substr(0, length);
    const absl::Status status = ParseMessage(InPiecesOf(cut, 16)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << length;
    EXPECT_THAT(std::string(status.message()), HasSubstr(length < 64 ? "within a header" : "within the payload of 'push'"));
  }
}

TEST(Framing, AnErrorTravelsWithCodeAndText) {
  const absl::Status status = absl::FailedPreconditionError("worker 1 has another model");
  EXPECT_EQ(StatusOf(ErrorRecord(status)), status);
  EXPECT_EQ(StatusOf(ErrorRecord(absl::AbortedError(std::string(1 << 20, 'x')))).message().size(), 8192U);
  for (const std::string& text : {std::string(), std::string("\x07"), std::string("\0\0\0\0ok", 6), std::string("\x7f\0\0\0", 4)}) {
    Record record;
    record.header.op = WireOp::kError;
    record.payload = Payload::OfText(text);
    EXPECT_EQ(StatusOf(record).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(PayloadReader, GivesFloatsInPlaceOrCopied) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  const Payload payload(std::vector<std::span<const std::byte>>{bytes.first(10), {}, bytes.subspan(10)}, nullptr);
  PayloadReader reader(payload);
  std::array<float, 4> scratch{};
  const std::span<const float> first = reader.Floats(2, scratch);
  EXPECT_EQ(first.data(), values.data());
  const std::span<const float> across = reader.Floats(1, scratch);
  EXPECT_EQ(across.data(), scratch.data());
  EXPECT_EQ(across[0], 3);
  const std::span<const float> rest = reader.Floats(4, scratch);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), values.begin() + 3));
}

}  // namespace
}  // namespace trainyard::engine
