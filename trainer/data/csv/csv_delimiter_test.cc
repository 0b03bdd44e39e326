#include "trainer/data/csv/csv_delimiter.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace trainyard::engine {
namespace {

char DelimiterOfText(const std::string& text, char fallback = ',') {
  const std::string path = ::testing::TempDir() + "csv_delimiter.csv";
  std::ofstream(path, std::ios::binary) << text;
  const absl::StatusOr<char> found = DelimiterOf(path, fallback);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.value_or('\0');
}

TEST(CsvDelimiter, IsWhatCutsEveryRowAlike) {
  EXPECT_EQ(DelimiterOfText("x,y\n1,2\n"), ',');
  EXPECT_EQ(DelimiterOfText("x;y;class\n1,5;2;a\n2,5;3;b\n"), ';');
  EXPECT_EQ(DelimiterOfText("x\ty\n1\t2\n"), '\t');
  EXPECT_EQ(DelimiterOfText("text,label\na;b,1\nc,2\n"), ',');
}

TEST(CsvDelimiter, IsWhatGivesTheMostCells) {
  EXPECT_EQ(DelimiterOfText("1;a,2,3\n1;b,2,3\n"), ',');
  EXPECT_EQ(DelimiterOfText("1,5;2,5;a\n2,5;1,5;b\n"), ';');
}

TEST(CsvDelimiter, IsTheFallbackWhereNothingCutsRowsAlike) {
  EXPECT_EQ(DelimiterOfText("x\n1\n2\n"), ',');
  EXPECT_EQ(DelimiterOfText("x,y\n1\n", '\t'), '\t');
  EXPECT_EQ(DelimiterOfText("", '\t'), '\t');
  EXPECT_FALSE(DelimiterOf(::testing::TempDir() + "csv_delimiter_of_nothing.csv", ',').ok());
}

}  // namespace
}  // namespace trainyard::engine
