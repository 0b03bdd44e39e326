#include "trainer/kvstore/row_payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <string>

#include "trainer/kvstore/gradient_reader.h"
#include "trainer/kvstore/row_history.h"
#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Reads a gradient of `rows` in stretches of `size` elements.
std::vector<float> ReadAll(const PushedGradient& gradient, const PartRows& part, size_t elements, size_t size) {
  GradientReader reader(gradient, part);
  std::vector<float> all;
  std::vector<float> scratch(size);
  for (size_t begin = 0; begin < elements; begin += size) {
    const std::span<const float> next = reader.Next(std::min(size, elements - begin), scratch);
    all.insert(all.end(), next.begin(), next.end());
  }
  return all;
}

// Elements 8 to 32 of a tensor of ten rows of five: the end of row 1, rows 2 to 5, the start of row
// 6.
class RowPayloadTest : public ::testing::Test {
 protected:
  RowPayloadTest() { std::iota(values_.begin(), values_.end(), 8.0F); }

  Payload Make(const std::vector<int32_t>& rows) { return MakeRowPayload(part_, rows, values_, pool_); }
  static Payload Words(const std::vector<uint32_t>& words) {
    return Payload::OfText(std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t)));
  }
  std::string ErrorOf(const std::vector<uint32_t>& words) const {
    return std::string(ParseRowPayload(part_, Words(words)).status().message());
  }

  const PartRows part_{{.name = "table", .shape = Shape({10, 5}), .trainable = true},
                       {.key = 0, .index = 1, .server = 0, .begin = 8, .count = 24}};
  std::array<float, 24> values_{};
  BufferPool pool_{1 << 20};
};

TEST_F(RowPayloadTest, ComesBackAsItWasSentAndRowsAtTheCutsInPart) {
  EXPECT_EQ(part_.first(), 1);
  EXPECT_EQ(part_.last(), 7);
  const Payload payload = Make({1, 3, 6});
  EXPECT_EQ(payload.size(), 4U + 3 * 4 + (2 + 5 + 2) * 4);
  const absl::StatusOr<std::vector<int32_t>> rows = ParseRowPayload(part_, payload);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(*rows, ElementsAre(1, 3, 6));
  std::array<float, 9> read{};
  ValuesOfRows(payload, *rows).Read(std::as_writable_bytes(std::span(read)));
  EXPECT_THAT(read, ElementsAre(8, 9, 15, 16, 17, 18, 19, 30, 31));
  EXPECT_THAT(*ParseRowPayload(part_, Make({})), IsEmpty());
}

TEST_F(RowPayloadTest, AsBfloat16EachValueHasTwoBytes) {
  const PartRows part({.name = "table", .shape = Shape({10, 5})}, {.key = 0, .index = 1, .server = 0, .begin = 8, .count = 24},
                      DType::kBF16);
  EXPECT_EQ(part.AllBytes(), 24U * 2);
  const std::vector<int32_t> rows = {1, 3, 6};
  PushedGradient gradient(MakeRowPayload(part, rows, values_, pool_));
  EXPECT_EQ(gradient.payload.size(), 4U + 3 * 4 + (2 + 5 + 2) * 2);
  std::array<std::byte, 48> narrow{};
  ToBfloat16(values_, narrow);
  EXPECT_EQ(MakeRowPayload(part, rows, narrow, pool_).ToString(), gradient.payload.ToString());
  ASSERT_TRUE(ParseRowPayload(part, gradient.payload).ok());
  gradient.rows = rows;
  std::vector<float> expected(24);
  for (const size_t i : {0, 1, 7, 8, 9, 10, 11, 22, 23}) expected[i] = RoundToBfloat16(values_[i]);
  for (size_t size = 1; size <= 24; ++size) EXPECT_EQ(ReadAll(gradient, part, 24, size), expected) << size;
  EXPECT_THAT(std::string(ParseRowPayload(part, Make(rows)).status().message()), HasSubstr("52 bytes for 3 rows, expected 34"))
      << "as float32";
}

TEST_F(RowPayloadTest, APartGetsOnlyTheRowsThatItHasSomethingOf) {
  const std::vector<int32_t> rows = {0, 1, 5, 6, 7, 9};
  EXPECT_THAT(part_.Inside(rows), ElementsAre(1, 5, 6));
  EXPECT_THAT(part_.Inside(std::span(rows).last(2)), IsEmpty());
}

TEST_F(RowPayloadTest, WhatMakesNoSenseIsRefusedByName) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("0 bytes, expected at least 4"));
  EXPECT_THAT(ErrorOf({0xffffffff, 3}), HasSubstr("4294967295 rows are announced in 8 bytes"));
  EXPECT_THAT(ErrorOf({1, 0, 0, 0}), HasSubstr("row 0 is not in this part, expected 1 to 6"));
  EXPECT_THAT(ErrorOf({1, 7, 0, 0}), HasSubstr("row 7 is not in this part"));
  EXPECT_THAT(ErrorOf({1, 0x80000000, 0, 0}), HasSubstr("row -2147483648 is not in this part"));
  EXPECT_THAT(ErrorOf({2, 3, 3}), HasSubstr("row 3 after row 3, expected ascending rows"));
  EXPECT_THAT(ErrorOf({2, 3, 2}), HasSubstr("row 2 after row 3"));
  EXPECT_THAT(ErrorOf({1, 3, 0, 0, 0, 0}), HasSubstr("24 bytes for 1 rows, expected 28"));
  EXPECT_THAT(ErrorOf({1, 1, 0, 0, 0}), HasSubstr("20 bytes for 1 rows, expected 16"));
  EXPECT_THAT(ErrorOf({0, 1}), HasSubstr("8 bytes for 0 rows, expected 4"));
}

TEST_F(RowPayloadTest, ReadAsAWholeTheOtherRowsAreZeroHoweverItIsCut) {
  for (const std::vector<int32_t>& rows : {std::vector<int32_t>{}, {1}, {6}, {2, 4}, {1, 2, 3, 4, 5, 6}}) {
    PushedGradient gradient(Make(rows));
    gradient.rows = rows;
    std::vector<float> expected(values_.size());
    for (const int32_t row : rows) {
      const PartRows::Range range = part_.RangeOf(row);
      std::copy_n(values_.begin() + range.begin, range.count, expected.begin() + range.begin);
    }
    for (size_t size = 1; size <= values_.size(); ++size) EXPECT_EQ(ReadAll(gradient, part_, values_.size(), size), expected) << size;
  }
}

TEST_F(RowPayloadTest, TheHistoryNamesWhatChangedSinceAVersion) {
  RowHistory history(part_);
  history.AllChanged(4);
  history.Changed(std::vector<int32_t>{1, 5}, 5);
  history.Changed(std::vector<int32_t>{5, 6}, 6);
  std::vector<int32_t> rows;
  ASSERT_TRUE(history.Since(4, rows));
  EXPECT_THAT(rows, ElementsAre(1, 5, 6));
  ASSERT_TRUE(history.Since(5, rows));
  EXPECT_THAT(rows, ElementsAre(5, 6));
  EXPECT_FALSE(history.Since(3, rows)) << "version 4 may have changed everything";
  history.AllChanged(7);
  EXPECT_FALSE(history.Since(6, rows));
  ASSERT_TRUE(history.Since(7, rows));
  EXPECT_THAT(rows, IsEmpty());
}

}  // namespace
}  // namespace trainyard::engine
