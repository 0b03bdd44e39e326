#include "trainer/base/bounded_lines.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

const absl::Time kStart = absl::UnixEpoch();

TEST(BoundedLinesTest, TheFirstOfEachTextIsTold) {
  BoundedLines lines;
  EXPECT_THAT(lines.Add("refuses ipv4:10.0.0.1:99", "op is 77", kStart), Optional(std::string("refuses ipv4:10.0.0.1:99: op is 77")));
  EXPECT_THAT(lines.Add("refuses ipv4:10.0.0.2:99", "no 'hello'", kStart), Optional(std::string("refuses ipv4:10.0.0.2:99: no 'hello'")));
  EXPECT_EQ(lines.count(), 2);
}

TEST(BoundedLinesTest, TenThousandOfOneTextAreTwoLinesAndOneMoreAfterAPeriod) {
  BoundedLines lines;
  int told = 0;
  for (int i = 0; i < 10000; ++i) told += lines.Add(fmt::format("ipv4:10.0.0.1:{}", i), "op is 77", kStart).has_value() ? 1 : 0;
  EXPECT_EQ(told, 2);
  EXPECT_THAT(lines.Add("refuses ipv4:10.0.0.2:1", "op is 77", kStart + BoundedLines::kPeriod),
              Optional(std::string("refuses ipv4:10.0.0.2:1: op is 77 (9998 such lines before this one are left out, 10001 in all)")));
}

TEST(BoundedLinesTest, ATextThatDiffersEachTimeIsBoundedToo) {
  BoundedLines lines;
  size_t told = 0;
  for (int i = 0; i < 10000; ++i) told += lines.Add("ipv4:10.0.0.1:1", fmt::format("op is {}", i), kStart).has_value() ? 1 : 0;
  EXPECT_EQ(told, BoundedLines::kMostTexts + 1);
}

TEST(BoundedLinesTest, ATextIsOneLineOfBoundedLength) {
  BoundedLines lines;
  const auto line = lines.Add("ipv4:10.0.0.1:1", "a\n[error] server 0 is lost\x1b[31m" + std::string(100000, 'x'), kStart);
  ASSERT_TRUE(line.has_value());
  EXPECT_THAT(*line, Not(HasSubstr("\n")));
  EXPECT_THAT(*line, Not(HasSubstr("\x1b")));
  EXPECT_LT(line->size(), 2 * BoundedLines::kLongestText);
}

}  // namespace
}  // namespace trainyard::engine
