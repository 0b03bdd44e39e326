#include "trainer/data/csv/csv_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "trainer/data/csv/fit_columns.h"
#include "trainer/data/open/open_dataset.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr char kAnimals[] =
    "weight,colour,kind\n"
    "2,red,cat\n"
    "4,blue,dog\n"
    "6,red,cat\n"
    "8,green,dog\n";

// A file in a folder of the test's own, and a configuration that reads it.
class CsvTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.format = DataConfig::Format::kCsv;
    config_.dir = ::testing::TempDir() + "csv_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(config_.dir);
    config_.train.files = {"train.csv"};
    config_.csv.label = {.name = "kind"};
    Write("train.csv", kAnimals);
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream file(config_.dir + "/" + name, std::ios::binary);
    file << text;
  }
  void Columns(std::vector<CsvColumn> columns) { config_.csv.columns = std::move(columns); }
  static CsvColumn Number(const std::string& name, MissingRule missing = {}) {
    return {.column = {.name = name}, .missing = std::move(missing)};
  }
  static CsvColumn Category(const std::string& name, MissingRule missing = {}) {
    return {.column = {.name = name}, .type = ColumnType::kCategory, .missing = std::move(missing)};
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Open(int64_t inputs, int classes, Split split = Split::kTrain) {
    ExpectedData expected{.example_shape = {inputs}, .classes = classes};
    if (classes == 0) expected.target_shape = {1};
    return OpenDataset(config_, split, expected, 1);
  }
  std::string ErrorOf(int64_t inputs, int classes, Split split = Split::kTrain) {
    const auto dataset = Open(inputs, classes, split);
    return dataset.ok() ? "" : std::string(dataset.status().message());
  }
  Batch All(int64_t inputs, int classes, Split split = Split::kTrain) {
    const auto dataset = Open(inputs, classes, split);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    Batch batch;
    if (!dataset.ok()) return batch;
    std::vector<int64_t> all((*dataset)->info().examples);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_TRUE((*dataset)->Read(all, batch).ok());
    return batch;
  }

  DataConfig config_;
};

TEST_F(CsvTest, NumbersAreStandardisedAndCategoriesBecomeOneHot) {
  Columns({Number("weight"), Category("colour")});
  const Batch batch = All(4, 2);
  // Of 2 4 6 8: mean 5, deviation sqrt(5); the colours are blue, green, red.
  const float z = 1.0F / std::sqrt(5.0F);
  EXPECT_THAT(batch.x.values<const float>(),
              Pointwise(FloatNear(1e-6F), {-3 * z, 0.0F, 0.0F, 1.0F, -z, 1.0F, 0.0F, 0.0F, z, 0.0F, 0.0F, 1.0F, 3 * z, 0.0F, 1.0F, 0.0F}));
  EXPECT_THAT(batch.y.values<const int32_t>(), ElementsAre(0, 1, 0, 1));
}

TEST_F(CsvTest, ColumnsWithoutAHeaderHaveNumbers) {
  Write("train.csv", "2,0\n4,1\n");
  config_.csv.header = false;
  config_.csv.label = {.name = "1", .number = 1};
  EXPECT_THAT(All(1, 2).x.values<const float>(), ElementsAre(-1, 1));
  config_.csv.label = {.name = "2", .number = 2};
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("train.csv has 2 columns, but no column 2: they are counted from 0"));
  config_.csv.label = {.name = "kind"};
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("has no header, so column \"kind\" needs a number, counted from 0"));
}

TEST_F(CsvTest, AModelWithoutClassesLearnsTheLabelsNumber) {
  config_.csv.label = {.name = "weight"};
  Columns({Category("colour")});
  const Batch batch = All(3, 0);
  EXPECT_THAT(batch.y.values<const float>(), ElementsAre(2, 4, 6, 8));
  config_.csv.label = {.name = "kind"};
  EXPECT_THAT(ErrorOf(3, 0), HasSubstr("train.csv:2: the label: found \"cat\", expected a finite number"));
}

TEST_F(CsvTest, LabelsThatAreWholeNumbersAreSortedAsNumbers) {
  Write("train.csv", "x,kind\n1,10\n2,9\n3,2\n");
  EXPECT_THAT(All(1, 3).y.values<const int32_t>(), ElementsAre(2, 1, 0));
  config_.classes = {"10", "9", "2"};
  EXPECT_THAT(All(1, 3).y.values<const int32_t>(), ElementsAre(0, 1, 2));
}

TEST_F(CsvTest, AnEmptyCellNeedsARule) {
  Write("train.csv", "x,c,kind\n1,a,k\n,a,l\n3,,k\n?,b,l\n");
  using Kind = MissingRule::Kind;
  Columns({Number("x")});
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("column \"x\": "));
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("train.csv:3: the cell is empty, expected a value; `missing` says"));
  Columns({Number("x", {.kind = Kind::kMean}), Category("c", {.kind = Kind::kMean})});
  EXPECT_THAT(All(3, 2).x.values<const float>(), ElementsAre(-1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1));
  Columns({Number("x", {.kind = Kind::kValue, .value = "4"}), Category("c", {.kind = Kind::kValue, .value = "none"})});
  EXPECT_THAT(All(4, 2).x.values<const float>().subspan(9, 3), ElementsAre(0, 0, 1));
  Columns({Number("x", {.kind = Kind::kValue, .value = "none"})});
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("column \"x\": `missing` is \"none\", expected a number for it"));
}

TEST_F(CsvTest, TheEvaluationIsScaledByTheTrainingsNumbers) {
  Write("eval.csv", "kind,colour,weight\ndog,mauve,5\n");
  config_.eval = {.files = {"eval.csv"}};
  Columns({Number("weight"), Category("colour")});
  const Batch batch = All(4, 2, Split::kEval);
  EXPECT_THAT(batch.x.values<const float>(), ElementsAre(0, 0, 0, 0));  // columns by name, an unknown colour
  EXPECT_THAT(batch.y.values<const int32_t>(), ElementsAre(1));
  Write("eval.csv", "kind,colour,weight\ncow,red,5\n");
  EXPECT_THAT(ErrorOf(4, 2, Split::kEval), HasSubstr("eval.csv:2: the label \"cow\" is none of the 2 classes (cat, dog)"));
}

TEST(RowEncoder, NamesACategoryThatTheTrainingDidNotHave) {
  const std::vector<FittedColumn> columns = {
      {.column = {.name = "weight"}},
      {.column = {.name = "colour"}, .type = ColumnType::kCategory, .categories = {"blue", "red"}, .missing = "red"}};
  const absl::StatusOr<RowEncoder> encoder = RowEncoder::Create(columns, {"weight", "colour"}, 2, "new.csv");
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  const auto unknown_of = [&](const std::vector<std::string>& row) {
    return encoder->UnknownCategory([&](size_t column) { return std::string_view(row[column]); });
  };
  EXPECT_EQ(unknown_of({"5", "blue"}), "");
  EXPECT_EQ(unknown_of({"5", ""}), "") << "a rule stands for it";
  EXPECT_EQ(unknown_of({"5", "mau\x1bve"}), "column \"colour\" has the category \"mau?ve\"");
}

TEST_F(CsvTest, TheTwoPartsOfAFileShareNothingAndMissNothing) {
  std::string text = "x,kind\n";
  for (int i = 0; i < 100; ++i) text += std::to_string(i) + "," + (i % 2 == 0 ? "even" : "odd") + "\n";
  Write("train.csv", text);
  config_.eval_fraction = 0.2;
  config_.eval = config_.train;
  const Batch train = All(1, 2);
  const Batch eval = All(1, 2, Split::kEval);
  EXPECT_EQ(train.examples, 80);
  EXPECT_EQ(eval.examples, 20);
  std::multiset<float> seen;
  double sum = 0;
  for (const float x : train.x.values<const float>()) {
    seen.insert(x);
    sum += x;
  }
  for (const float x : eval.x.values<const float>()) seen.insert(x);
  EXPECT_EQ(std::set<float>(seen.begin(), seen.end()).size(), 100);
  EXPECT_NEAR(sum, 0, 1e-4);  // the mean is that of the training part alone
  EXPECT_EQ(std::accumulate(eval.y.values<const int32_t>().begin(), eval.y.values<const int32_t>().end(), 0), 10);
}

TEST_F(CsvTest, FittedColumnsOfACheckpointAreTakenAsTheyAre) {
  Columns({Number("weight")});
  config_.classes = {"cat", "dog"};
  config_.fitted = {FittedColumn{.column = {.name = "weight"}, .mean = 2, .deviation = 2}};
  EXPECT_THAT(All(1, 2).x.values<const float>(), ElementsAre(0, 1, 2, 3));
}

TEST_F(CsvTest, AnEmptyCellThatATrainingDidNotTakeIsTold) {
  Write("train.csv", "weight,kind\n,cat\n");
  Columns({Number("weight")});
  config_.classes = {"cat", "dog"};
  config_.fitted = {FittedColumn{.column = {.name = "weight"}, .mean = 2, .deviation = 2}};
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("train.csv:2: column \"weight\": the cell is empty, expected a value: the training's job file gives "
                                       "the column no `missing`"));
}

TEST_F(CsvTest, ColumnsWithoutANameOfTheirOwnAreTakenByNumber) {
  Write("train.csv", ",a,a,kind\n1,4,6,x\n3,6,4,y\n");
  EXPECT_THAT(All(3, 2).x.values<const float>(), ElementsAre(-1, -1, 1, 1, 1, -1));
}

TEST_F(CsvTest, WhatDoesNotFitTheModelIsTold) {
  Columns({Number("weight"), Category("colour")});
  EXPECT_THAT(ErrorOf(2, 2),
              HasSubstr("its columns become 4 numbers (weight, colour: 3), the model's input is [2]; say input: {shape: [4]}"));
  EXPECT_THAT(ErrorOf(4, 3), HasSubstr("its labels are 2 classes, the model has 3; its last layer needs 2 units"));
}

TEST_F(CsvTest, MistakesInColumnsAreNamed) {
  Columns({Number("colour")});
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("column \"colour\": "));
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("train.csv:2: found \"red\", expected a finite number; is the column of type category?"));
  Columns({Number("wieght")});
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("has no column \"wieght\"; did you mean \"weight\"?"));
  Columns({Category("kind")});
  EXPECT_THAT(ErrorOf(2, 2), HasSubstr("column \"kind\" is the label"));
  Write("train.csv", "a,a,kind\n1,2,x\n");
  Columns({Number("a")});
  EXPECT_THAT(ErrorOf(1, 1), HasSubstr("has several columns \"a\"; name them by number"));
  Write("train.csv", "weight,kind\n1,\n");
  Columns({Number("weight")});
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("train.csv:2: the label is empty"));
  Write("train.csv", "weight,kind\n");
  EXPECT_THAT(ErrorOf(1, 2), HasSubstr("has a header and no rows, expected a row for each example"));
}

TEST_F(CsvTest, DecimalCommasAreReadInColumnsAndLabels) {
  Write("train.csv", "weight;kind\n0,5;1,25\n;2,5\n1,5;-3\n");
  config_.csv.delimiter = ';';
  config_.csv.decimal = ',';
  Columns({Number("weight", {.kind = MissingRule::Kind::kValue, .value = "2.5"})});
  const Batch batch = All(1, 0);
  EXPECT_THAT(batch.y.values<const float>(), ElementsAre(1.25F, 2.5F, -3.0F));
  const float z = std::sqrt(1.5F);  // of 0.5 2.5 1.5
  EXPECT_THAT(batch.x.values<const float>(), Pointwise(FloatNear(1e-6F), {-z, z, 0.0F}));
  Write("train.csv", "weight;kind\n1.5;1\n");
  EXPECT_THAT(ErrorOf(1, 0), HasSubstr("train.csv:2: found \"1.5\", expected a finite number"));
}

TEST_F(CsvTest, AStandardisedLabelHasTheMomentsOfTheTrainingsRows) {
  Write("train.csv", "weight,kind\n1,100000\n2,300000\n3,500000\n");
  Write("eval.csv", "weight,kind\n2,1e6\n");
  config_.eval = DataSplit{.files = {"eval.csv"}};
  config_.csv.standardize_label = true;
  const float z = std::sqrt(1.5F);
  EXPECT_THAT(All(1, 0).y.values<const float>(), Pointwise(FloatNear(1e-6F), {-z, 0.0F, z}));
  EXPECT_NEAR(All(1, 0, Split::kEval).y.values<const float>()[0], 3.5 * z, 1e-5);
  config_.csv.standardize_label = false;
  EXPECT_THAT(All(1, 0).y.values<const float>(), ElementsAre(100000, 300000, 500000));
}

TEST_F(CsvTest, ALabelScaleOfACheckpointIsTakenAsItIs) {
  Write("train.csv", "weight,kind\n1,30\n");
  config_.csv.standardize_label = true;
  config_.fitted = {FittedColumn{.column = {.name = "weight"}, .mean = 2, .deviation = 2}};
  config_.label_scale = LabelScale{.mean = 10, .deviation = 4};
  EXPECT_THAT(All(1, 0).y.values<const float>(), ElementsAre(5));
}

TEST_F(CsvTest, EqualLabelsBecomeZeros) {
  Write("train.csv", "weight,kind\n1,0.1\n2,0.1\n3,0.1\n");
  config_.csv.standardize_label = true;
  const Batch batch = All(1, 0);
  for (const float label : batch.y.values<const float>()) EXPECT_NEAR(label, 0, 1e-12);
}

TEST_F(CsvTest, ALabelThatCannotBeStandardisedIsTold) {
  config_.csv.standardize_label = true;
  Write("train.csv", "weight,kind\n1,1\n2,cat\n");
  EXPECT_THAT(ErrorOf(1, 0), HasSubstr("train.csv:3: the label: found \"cat\", expected a finite number"));
  Write("train.csv", "weight,kind\n1,1e300\n2,-1e300\n");
  EXPECT_THAT(ErrorOf(1, 0), HasSubstr("train.csv: the label: the numbers are too large for a mean and a deviation"));
  Write("train.csv", "weight,kind\n1,1e100\n2,-1e100\n");
  EXPECT_THAT(ErrorOf(1, 0), HasSubstr("train.csv:2: the label 1e+100 is too large"));
}

TEST(FitColumns, AColumnOfEqualValuesBecomesZeros) {
  CsvTable table({}, 2);
  table.BeginFile("t");
  for (int row = 0; row < 3; ++row) table.Append({"0.1", "k"}, row + 1);
  const auto columns = FitColumns(table, std::vector<int64_t>{0, 1, 2}, {.label = {.name = "1", .number = 1}});
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_EQ((*columns)[0].deviation, 1);
}

}  // namespace
}  // namespace trainyard::engine
