#include "trainer/commands/label_column.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kNone;

CsvTable TableOf(std::vector<std::string> header, size_t columns = 3) {
  CsvTable table(std::move(header), columns);
  table.BeginFile("train.csv");
  return table;
}

size_t Find(const CsvTable& table, const std::string& wanted = "", const std::vector<std::string>& other = kNone) {
  const absl::StatusOr<size_t> found = FindLabelColumn(table, wanted, other);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.value_or(99);
}

TEST(LackingIn, NamesTheColumnsThatTheOtherFileHasNot) {
  EXPECT_THAT(LackingIn({"c", "a", "d"}, {"a", "b", "c"}), ElementsAre("b"));
  EXPECT_THAT(LackingIn({}, {"a", "b"}), IsEmpty());
  EXPECT_THAT(LackingIn({"a"}, {}), IsEmpty());
}

TEST(FindLabelColumn, IsOneOfAKnownNameElseTheLast) {
  EXPECT_EQ(Find(TableOf({"a", "Class", "b"})), 1);
  EXPECT_EQ(Find(TableOf({"a", "b", "c"})), 2);
  EXPECT_EQ(Find(TableOf({})), 2);
}

TEST(FindLabelColumn, IsNotTheEmptyColumnBehindCommasAtTheEnd) {
  CsvTable table = TableOf({"a", "b", ""});
  table.Append({"1", "x", ""}, 2);
  table.Append({"", "", ""}, 3);
  EXPECT_EQ(Find(table), 1);
}

TEST(FindLabelColumn, IsTheOneThatTheOtherFileLacks) {
  const CsvTable table = TableOf({"survived", "age", "class"});
  EXPECT_EQ(Find(table, "", {"class", "age"}), 0);
  EXPECT_EQ(Find(table, "", {"survived", "age", "class"}), 2);
  EXPECT_EQ(Find(table, "", {"age"}), 2);
}

TEST(FindLabelColumn, IsWhatTheUserWants) {
  const CsvTable table = TableOf({"2", "age", "class"});
  EXPECT_EQ(Find(table, "age"), 1);
  EXPECT_EQ(Find(table, "2"), 0) << "a name comes before a number";
  EXPECT_EQ(Find(table, "1"), 1);
  EXPECT_EQ(Find(TableOf({}), "0"), 0);
  EXPECT_EQ(Find(table, "age", {"2", "age"}), 1);
}

TEST(FindLabelColumn, AWantedColumnThatIsNotThereIsTold) {
  const auto error_of = [](const CsvTable& table, const std::string& wanted) {
    return std::string(FindLabelColumn(table, wanted, kNone).status().message());
  };
  EXPECT_THAT(error_of(TableOf({"a", "price", "c"}), "prise"), HasSubstr("train.csv has no column \"prise\"; did you mean \"price\"?"));
  EXPECT_THAT(error_of(TableOf({"a", "b", "c"}), "3"), HasSubstr("train.csv has 3 columns, but no column 3"));
  EXPECT_THAT(error_of(TableOf({}), "a"), HasSubstr("train.csv has no header, so column \"a\" needs a number"));
}

}  // namespace
}  // namespace trainyard::engine
