#include "trainer/data/csv/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct CsvText {
  std::vector<std::vector<std::string>> rows;
  std::vector<int64_t> lines;
  std::string error;
};

CsvText ReadText(const std::string& text, char delimiter = ',') {
  CsvReader reader(MemorySource(text), "t.csv", delimiter);
  CsvText read;
  CsvRow row;
  while (true) {
    const absl::StatusOr<bool> more = reader.Next(row);
    if (!more.ok()) read.error = std::string(more.status().message());
    if (!more.ok() || !*more) return read;
    read.rows.push_back(row.cells);
    read.lines.push_back(row.line);
  }
}

TEST(CsvReader, CellsAreCutAtDelimitersAndLineEnds) {
  for (const char* text : {"a,b\n1,2\n", "a,b\r\n1,2\r\n", "a,b\n1,2",
                           "\xef\xbb\xbf"
                           "a , b\n\n1, 2\n\n"}) {
    const CsvText read = ReadText(text);
    EXPECT_EQ(read.error, "");
    EXPECT_THAT(read.rows, ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2"))) << text;
  }
  EXPECT_THAT(ReadText("a;b,c\n", ';').rows, ElementsAre(ElementsAre("a", "b,c")));
  EXPECT_THAT(ReadText("a\tb\n\t\n", '\t').rows, ElementsAre(ElementsAre("a", "b"), ElementsAre("", "")));
}

TEST(CsvReader, QuotedCellsHoldDelimitersQuotesAndLineEnds) {
  const CsvText read = ReadText("\"a,1\",\"say \"\"x\"\"\"\n\"two\nlines\",2\nlast,\" 3 \"\n");
  EXPECT_EQ(read.error, "");
  EXPECT_THAT(read.rows, ElementsAre(ElementsAre("a,1", "say \"x\""), ElementsAre("two\nlines", "2"), ElementsAre("last", " 3 ")));
  EXPECT_THAT(read.lines, ElementsAre(1, 2, 4));
}

TEST(CsvReader, LinesAreThoseOfAnEditor) {
  EXPECT_THAT(ReadText("a\r\n\r\nb\r\n").lines, ElementsAre(1, 3));
  EXPECT_THAT(ReadText("a\n\n\nb\n").lines, ElementsAre(1, 4));
}

TEST(CsvReader, NothingHasNoRows) {
  EXPECT_TRUE(ReadText("").rows.empty());
  EXPECT_TRUE(ReadText("\n\r\n").rows.empty());
  EXPECT_EQ(ReadText("").error, "");
}

TEST(CsvReader, RowsBeforeAMistakeAreRead) {
  const CsvText read = ReadText("a,b\n1,2\n1,2,3\n4,5\n");
  EXPECT_THAT(read.error, HasSubstr("t.csv:3: the row has 3 cells, those before it have 2"));
  EXPECT_THAT(ReadText("a,b\n1\n").error, HasSubstr("t.csv:2: the row has 1 cell, those before it have 2"));
  EXPECT_EQ(read.rows.size(), 2);
}

TEST(CsvReader, HostileTextIsRefusedByItsLine) {
  EXPECT_THAT(ReadText("a,b\n1,\"2\n").error, HasSubstr("a quote is not closed, or stands within a cell"));
  EXPECT_THAT(ReadText("a,b\n1,x\"2\"\n").error, HasSubstr("t.csv:2: a quote is not closed, or stands within a cell"));
  EXPECT_THAT(ReadText("a\n\xe4\n").error, HasSubstr("t.csv:2: the text is not UTF-8"));
  EXPECT_THAT(ReadText(std::string("a\nb\0c\n", 6)).error, HasSubstr("t.csv:2: the text has zero bytes"));
  EXPECT_THAT(ReadText("\xff\xfe"
                       "a")
                  .error,
              HasSubstr("t.csv:1: the text is UTF-16"));
  EXPECT_THAT(ReadText("\"" + std::string(3 << 20, 'x')).error, HasSubstr("a cell has more than 1048576 bytes; is a quote not closed?"));
  EXPECT_THAT(ReadText(std::string(70000, ',')).error, HasSubstr("the row has more than 65536 cells"));
}

TEST(CsvReader, RowsAreWholeAcrossChunks) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i) + ",\"x" + std::to_string(i) + "\"\n";
  const CsvText read = ReadText(text);
  EXPECT_EQ(read.error, "");
  ASSERT_EQ(read.rows.size(), 50000);
  EXPECT_THAT(read.rows[49999], ElementsAre("49999", "x49999"));
}

}  // namespace
}  // namespace trainyard::engine
