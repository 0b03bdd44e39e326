#include "trainer/predict/line_reader.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace trainyard::engine {
namespace {

using Found = LineReader::Found;

TEST(LineReader, NumbersCountTheBlankLinesThatItPassesOver) {
  std::istringstream stream("one\n\n \t\r\nfour");
  LineReader reader(stream, 10);
  ASSERT_EQ(reader.Next(), Found::kLine);
  EXPECT_EQ(reader.line(), "one");
  ASSERT_EQ(reader.Next(), Found::kLine);
  EXPECT_EQ(reader.line(), "four");
  EXPECT_EQ(reader.number(), 4);
  EXPECT_EQ(reader.Next(), Found::kEnd);
}

TEST(LineReader, ALineOfTheBoundIsReadAndOneByteMoreIsPassedOver) {
  std::istringstream stream(std::string(5, 'a') + "\n" + std::string(6, 'b') + "\n" + std::string(100'000, 'c') + "\nd\n");
  LineReader reader(stream, 5);
  ASSERT_EQ(reader.Next(), Found::kLine);
  EXPECT_EQ(reader.line(), "aaaaa");
  EXPECT_EQ(reader.Next(), Found::kTooLong);
  EXPECT_EQ(reader.number(), 2);
  EXPECT_EQ(reader.Next(), Found::kTooLong);
  EXPECT_LE(reader.line().capacity(), 64U);
  ASSERT_EQ(reader.Next(), Found::kLine);
  EXPECT_EQ(reader.line(), "d");
  EXPECT_EQ(reader.Next(), Found::kEnd);
}

TEST(LineReader, AnEmptyStreamEndsAtOnceAndStaysAtItsEnd) {
  std::istringstream stream("");
  LineReader reader(stream, 5);
  EXPECT_EQ(reader.Next(), Found::kEnd);
  EXPECT_EQ(reader.Next(), Found::kEnd);
  EXPECT_EQ(reader.number(), 0);
}

}  // namespace
}  // namespace trainyard::engine
