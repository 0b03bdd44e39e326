#include "trainer/model/confusion_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::DoubleEq;
using ::testing::Eq;
using ::testing::Optional;

TEST(ConfusionMatrix, CountsWhatWasCalledWhat) {
  ConfusionMatrix matrix(3);
  matrix.Add(0, 0);
  matrix.Add(0, 1);
  matrix.Add(0, 0);
  matrix.Add(1, 1);
  EXPECT_EQ(matrix.total(), 4);
  EXPECT_EQ(matrix.correct(), 3);
  EXPECT_EQ(matrix.cell(0, 0), 2);
  EXPECT_EQ(matrix.cell(0, 1), 1);
  EXPECT_EQ(matrix.cell(1, 0), 0);
  const ClassScore first = matrix.Score(0);
  EXPECT_EQ(first.support, 3);
  EXPECT_EQ(first.predicted, 2);
  EXPECT_THAT(first.precision, Optional(DoubleEq(1)));
  EXPECT_THAT(first.recall, Optional(DoubleEq(2.0 / 3)));
  EXPECT_THAT(first.f1, Optional(DoubleEq(0.8)));
}

TEST(ConfusionMatrix, AClassWithoutExamplesHasNoRecall) {
  ConfusionMatrix matrix(2);
  matrix.Add(0, 1);
  EXPECT_THAT(matrix.Score(1).recall, Eq(std::nullopt));
  EXPECT_THAT(matrix.Score(1).precision, Optional(DoubleEq(0)));
  EXPECT_THAT(matrix.Score(1).f1, Optional(DoubleEq(0)));
}

TEST(ConfusionMatrix, AClassThatIsNeverPredictedHasNoPrecision) {
  ConfusionMatrix matrix(2);
  matrix.Add(0, 1);
  EXPECT_THAT(matrix.Score(0).precision, Eq(std::nullopt));
  EXPECT_THAT(matrix.Score(0).recall, Optional(DoubleEq(0)));
}

TEST(ConfusionMatrix, AClassThatIsNeitherHasNoScoreAndNoPartInTheMeans) {
  ConfusionMatrix matrix(3);
  matrix.Add(0, 0);
  matrix.Add(1, 0);
  EXPECT_THAT(matrix.Score(2).f1, Eq(std::nullopt));
  const MacroScore macro = matrix.Macro();
  EXPECT_DOUBLE_EQ(macro.precision, 0.25);  // (1/2 + 0) / 2
  EXPECT_DOUBLE_EQ(macro.recall, 0.5);
  EXPECT_DOUBLE_EQ(macro.f1, 1.0 / 3);
}

TEST(ConfusionMatrix, WithoutExamplesTheMeansAreZero) {
  const MacroScore macro = ConfusionMatrix(4).Macro();
  EXPECT_EQ(macro.precision, 0);
  EXPECT_EQ(macro.f1, 0);
}

TEST(ConfusionMatrix, OfVeryManyClassesOnlyTheCountsAreKept) {
  ConfusionMatrix matrix(ConfusionMatrix::kMostClasses + 1);
  matrix.Add(5, 5);
  matrix.Add(5, 6);
  EXPECT_FALSE(matrix.has_cells());
  EXPECT_THAT(matrix.Score(5).recall, Optional(DoubleEq(0.5)));
}

}  // namespace
}  // namespace trainyard::engine
