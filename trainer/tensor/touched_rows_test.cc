#include "trainer/tensor/touched_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TouchedRows, ListsEachRowOnceAndInOrder) {
  TouchedRows touched;
  EXPECT_TRUE(touched.all());
  touched.Reserve(6);
  EXPECT_TRUE(touched.all()) << "room alone says nothing";
  touched.Touch(std::vector<int32_t>{7, 3, 7, 0, 3, 7});
  EXPECT_FALSE(touched.all());
  EXPECT_THAT(touched.ids(), ElementsAre(0, 3, 7));
  touched.Touch({});
  EXPECT_FALSE(touched.all());
  EXPECT_THAT(touched.ids(), IsEmpty());
  touched.SetAll();
  EXPECT_TRUE(touched.all());
}

TEST(TouchedRows, AGradientShowsItsRowsWhereTheyAreKnown) {
  const std::vector<float> values(10);
  TouchedRows touched;
  EXPECT_FALSE(GradientView(values, touched).rows);
  touched.Reserve(1);
  touched.Touch(std::vector<int32_t>{4});
  EXPECT_THAT(*GradientView(values, touched).rows, ElementsAre(4));
}

}  // namespace
}  // namespace trainyard::engine
