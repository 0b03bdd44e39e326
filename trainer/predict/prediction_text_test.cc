#include "trainer/predict/prediction_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

const std::vector<std::string> kAnimals = {"cat", "dog", "ox"};

TEST(LikeliestOf, TheLowerNumberComesFirstOfEquallyLikelyOnes) {
  const std::array<float, 4> probabilities = {0.25F, 0.4F, 0.25F, 0.1F};
  EXPECT_THAT(LikeliestOf(probabilities, 3),
              ElementsAre(Field(&RankedClass::number, 1), Field(&RankedClass::number, 0), Field(&RankedClass::number, 2)));
  EXPECT_EQ(LikeliestOf(probabilities, 9).size(), 4);
}

TEST(PredictionJson, HasTheFileAndTheClass) {
  const std::array<float, 3> values = {0.25F, 0.5F, 0.25F};
  EXPECT_EQ(PredictionJson({.file = "a.png", .values = values}, kAnimals, 1),
            R"({"file":"a.png","class":"dog","classNumber":1,"probability":0.5})");
  EXPECT_EQ(PredictionJson({.file = "x.npy", .index = 7, .values = values}, kAnimals, 2),
            R"({"file":"x.npy","index":7,"class":"dog","classNumber":1,"probability":0.5,"top":[)"
            R"({"class":"dog","classNumber":1,"probability":0.5},{"class":"cat","classNumber":0,"probability":0.25}]})");
  EXPECT_EQ(PredictionJson({.file = "-", .index = 0, .values = values}, {}, 1), R"({"file":"-","index":0,"values":[0.25,0.5,0.25]})");
}

TEST(PredictionJson, ANameThatIsNoUtf8IsStillJson) {
  const std::array<float, 1> values = {1};
  EXPECT_EQ(PredictionJson({.file = "\xff", .values = values}, {}, 1), "{\"file\":\"\xef\xbf\xbd\",\"values\":[1.0]}");
}

TEST(PredictionTable, HasAColumnForEachOfTheLikeliestClasses) {
  const std::vector<std::string> files = {"a.png", "longer.png"};
  const PredictionTable table(files, kAnimals, 2);
  const std::array<float, 3> values = {0.25F, 0.5F, 0.25F};
  EXPECT_EQ(table.Header(), "file        class  probability  class  probability");
  EXPECT_EQ(table.Row({.file = "a.png", .values = values}), "a.png       dog         0.5000  cat         0.2500");
}

TEST(PredictionTable, FilesOfSeveralExamplesHaveRoomForTheirNumbers) {
  const std::vector<std::string> files = {"p1.csv", "a.png"};
  const PredictionTable table(files, kAnimals, 1);
  const std::array<float, 3> values = {0.25F, 0.5F, 0.25F};
  EXPECT_EQ(table.Header(), "file         class  probability");
  EXPECT_EQ(table.Row({.file = "p1.csv", .index = 0, .values = values}), "p1.csv[0]    dog         0.5000");
  EXPECT_EQ(table.Row({.file = "p1.csv", .index = 100, .values = values}), "p1.csv[100]  dog         0.5000");
  EXPECT_EQ(table.Row({.file = "a.png", .values = values}), "a.png        dog         0.5000");
}

TEST(PredictionTable, TokensThatAreSpacesOrEndsOfLinesCanBeSeen) {
  const std::array<float, 3> values = {0.25F, 0.5F, 0.25F};
  EXPECT_EQ(PredictionTable({}, {" ", "\n", "a\033b"}, 3).Row({.file = "a", .index = 0, .values = values}),
            R"(a[0]  "\n"           0.5000  " "            0.2500  "a\x1bb"       0.2500)");
}

TEST(PredictionTable, ANameCannotMoveTheCursor) {
  const std::array<float, 1> values = {2};
  EXPECT_EQ(PredictionTable({}, {}, 1).Row({.file = "a\033[2J\n.npy", .index = 3, .values = values}), "a?[2J?.npy[3]  2");
}

}  // namespace
}  // namespace trainyard::engine
