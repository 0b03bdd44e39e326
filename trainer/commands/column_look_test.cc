#include "trainer/commands/column_look.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trainyard::engine {
namespace {

ColumnLook LookOf(const std::vector<std::string>& cells) {
  CsvTable table({"x"}, 1);
  table.BeginFile("t.csv");
  for (size_t i = 0; i < cells.size(); ++i) table.Append({cells[i]}, static_cast<int64_t>(i) + 2);
  return LookAt(table, 0);
}

TEST(ColumnLook, NumbersWithWordsForEmptyCellsAreNumbers) {
  const ColumnLook look = LookOf({"1", "NA", "2.5"});
  EXPECT_TRUE(look.is_number());
  EXPECT_TRUE(look.has_missing());
  EXPECT_EQ(look.Doubt(), "");
  EXPECT_FALSE(LookOf({"1", "2"}).has_missing());
  EXPECT_TRUE(LookOf({"1", ""}).has_missing());
}

TEST(ColumnLook, TextsAreNoNumbersAndInNoDoubt) {
  const ColumnLook look = LookOf({"red", "blue", "NA"});
  EXPECT_FALSE(look.is_number());
  EXPECT_FALSE(look.has_missing());  // it is a category of its own
  EXPECT_EQ(look.Doubt(), "");
  EXPECT_EQ(LookOf({"red", "7", "blue"}).Doubt(), "");
  EXPECT_TRUE(LookOf({"", ""}).is_blank());
}

TEST(ColumnLook, AFewTextsAmongNumbersAreInDoubt) {
  EXPECT_EQ(LookOf({"1", "2", "30x"}).Doubt(), "2 numbers and 1 text, such as \"30x\" in t.csv:4");
  EXPECT_EQ(LookOf({"1", "inf", "2", "-inf", "3"}).Doubt(), "3 numbers and 2 infinite numbers, such as \"inf\" in t.csv:3");
  EXPECT_EQ(LookOf({"nan", "inf", "-Infinity"}).Doubt(), "2 infinite numbers, such as \"inf\" in t.csv:3");
  EXPECT_EQ(LookOf({"red", "inf", "blue"}).Doubt(), "");
  EXPECT_EQ(LookOf({"1", "2", std::string(39, 'a') + "\xc3\xa9"}).Doubt(),
            "2 numbers and 1 text, such as \"" + std::string(39, 'a') + "…\" in t.csv:4");
}

TEST(ColumnLook, NumbersWithCommasAreInDoubt) {
  EXPECT_EQ(LookOf({"1,5", "-2,5"}).Doubt(), "2 numbers with a comma, such as \"1,5\" in t.csv:2");
  EXPECT_EQ(LookOf({"999", "1,000"}).Doubt(), "1 number and 1 number with a comma, such as \"1,000\" in t.csv:3");
  EXPECT_TRUE(LooksLikeNumber("1,000"));
  EXPECT_FALSE(LooksLikeNumber("a,b"));
}

TEST(ColumnLook, ADecimalCommaIsKnownFromGroupsOfThousands) {
  const auto decimal_of = [](const std::vector<std::string>& cells) {
    CsvTable table({"x"}, 1);
    table.BeginFile("t.csv");
    for (size_t i = 0; i < cells.size(); ++i) table.Append({cells[i]}, static_cast<int64_t>(i) + 2);
    return DecimalOf(table);
  };
  EXPECT_EQ(decimal_of({"1,000", "1,5"}), ',');
  EXPECT_EQ(decimal_of({"-0,25e3", "7", "red"}), ',');
  EXPECT_EQ(decimal_of({"1,000", "2,000"}), '.') << "either";
  EXPECT_EQ(decimal_of({"1,5", "2.5"}), '.');
  EXPECT_EQ(decimal_of({"1,5", "v2.5"}), ',') << "a text is no number";
  EXPECT_EQ(decimal_of({"1,2,3", "a,b"}), '.');
  EXPECT_EQ(decimal_of({"1", "red"}), '.');
}

}  // namespace
}  // namespace trainyard::engine
