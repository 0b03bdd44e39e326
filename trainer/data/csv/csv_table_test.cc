#include "trainer/data/csv/csv_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

TEST(CsvTable, ItsFirstRowBecomesTheHeader) {
  CsvTable table({}, 2);
  table.BeginFile("a.csv");
  table.Append({"name", ""}, 1);
  table.Append({"", "2"}, 2);
  table.Append({"three", "4"}, 5);
  table.TakeHeader();
  EXPECT_THAT(table.header(), ElementsAre("name", ""));
  ASSERT_EQ(table.rows(), 2);
  EXPECT_EQ(table.Cell(0, 0), "");
  EXPECT_EQ(table.Cell(0, 1), "2");
  EXPECT_EQ(table.Cell(1, 0), "three");
  EXPECT_EQ(table.Cell(1, 1), "4");
  EXPECT_EQ(table.PlaceOf(0), "a.csv:2");
  EXPECT_EQ(table.PlaceOf(1), "a.csv:5");
}

}  // namespace
}  // namespace trainyard::engine
