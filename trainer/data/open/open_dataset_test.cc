#include "trainer/data/open/open_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <vector>

#include "trainer/base/file.h"
#include "trainer/data/formats/idx_maker.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Four 1x2 images with the labels 0 1 2 1, in a folder of the test's own.
class DatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.dir = ::testing::TempDir() + "dataset_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(config_.dir);
    Write("images", IdxMaker().Axes({4, 1, 2}).Data("\x01\x02\x03\x04\x05\x06\x07\x08").Make());
    Write("labels", IdxMaker().Axes({4}).Data(std::string("\0\1\2\1", 4)).Make());
    config_.train = {.images = "images", .labels = "labels"};
  }

  void Write(const std::string& name, const std::string& bytes) { ASSERT_TRUE(WriteFileDurably(config_.dir + "/" + name, bytes).ok()); }

  absl::StatusOr<std::unique_ptr<Dataset>> Open(ExpectedData expected = {.example_shape = {1, 2, 1}, .classes = 3}) {
    return OpenDataset(config_, Split::kTrain, expected, 1);
  }
  std::string ErrorOf(ExpectedData expected = {.example_shape = {1, 2, 1}, .classes = 3}) {
    auto dataset = Open(expected);
    EXPECT_FALSE(dataset.ok());
    return dataset.ok() ? "" : std::string(dataset.status().message());
  }

  void SetCache(bool cache) { config_.pipeline.examples.assign(cache ? 1 : 0, CacheConfig{}); }

  DataConfig config_;
};

TEST_F(DatasetTest, IdxExamplesComeInTheOrderAskedFor) {
  for (bool cache : {true, false}) {
    SetCache(cache);
    auto dataset = Open();
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->info().examples, 4);
    Batch batch;
    ASSERT_TRUE((*dataset)->Read(std::vector<int64_t>{2, 0}, batch).ok());
    EXPECT_EQ(batch.x.shape, Shape({2, 1, 2, 1}));
    EXPECT_THAT(batch.x.values<uint8_t>(), ElementsAre(5, 6, 1, 2));
    EXPECT_THAT(batch.y.values<int32_t>(), ElementsAre(2, 0));
    std::vector<float> scaled(4);
    CopyExamplesAsF32(batch, scaled);
    EXPECT_FLOAT_EQ(scaled[0], 5.0F / 255.0F);
  }
}

TEST_F(DatasetTest, ARangeCountsItsOwnExamplesFromZero) {
  config_.train.begin = 2;
  config_.train.end = 4;
  for (bool cache : {true, false}) {
    SetCache(cache);
    auto dataset = Open();
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->info().examples, 2);
    Batch batch;
    ASSERT_TRUE((*dataset)->Read(std::vector<int64_t>{1}, batch).ok());
    EXPECT_THAT(batch.x.values<uint8_t>(), ElementsAre(7, 8));
    EXPECT_THAT(batch.y.values<int32_t>(), ElementsAre(1));
  }
}

TEST_F(DatasetTest, ExamplesThatAreNotBytesBecomeFloatsUnscaled) {
  Write("images", IdxMaker().Type(IdxType::kI16).Axes({4, 1}).Data(std::string("\0\1\xff\xff\1\0\0\4", 8)).Make());
  for (bool cache : {true, false}) {
    SetCache(cache);
    auto dataset = Open({.example_shape = {1}, .classes = 3});
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->info().x_scale, 1.0F);
    Batch batch;
    ASSERT_TRUE((*dataset)->Read(std::vector<int64_t>{0, 1, 2}, batch).ok());
    EXPECT_THAT(batch.x.values<float>(), ElementsAre(1, -1, 256));
  }
}

TEST_F(DatasetTest, WithoutClassesLabelsAreTargetsOfTheModelsShape) {
  auto dataset = Open({.example_shape = {2}, .classes = 0, .target_shape = {1}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch;
  ASSERT_TRUE((*dataset)->Read(std::vector<int64_t>{2, 3}, batch).ok());
  EXPECT_EQ(batch.y.shape, Shape({2, 1}));
  EXPECT_THAT(batch.y.values<float>(), ElementsAre(2, 1));
  EXPECT_THAT(ErrorOf({.example_shape = {2}, .classes = 0, .target_shape = {3}}),
              HasSubstr("targets of shape [] (1 numbers each), the model's output is [3]"));
}

TEST_F(DatasetTest, AMissingFileIsNamedWithItsField) {
  config_.train.labels = "nowhere";
  EXPECT_THAT(ErrorOf(), StartsWith("spec.training.data.train: cannot open " + config_.dir + "/nowhere: No such file"));
}

TEST_F(DatasetTest, ALabelOutOfRangeNamesItsRecord) {
  Write("labels", IdxMaker().Axes({4}).Data(std::string("\0\1\2\3", 4)).Make());
  EXPECT_THAT(ErrorOf(), HasSubstr("labels: label 3 of record 3 is not one of the model's 3 classes (0 to 2)"));
  Write("labels", IdxMaker().Type(IdxType::kI8).Axes({4}).Data(std::string("\0\1\xff\0", 4)).Make());
  EXPECT_THAT(ErrorOf(), HasSubstr("label -1 of record 2"));
}

TEST_F(DatasetTest, AsManyLabelsAsImagesAreNeeded) {
  Write("labels", IdxMaker().Axes({3}).Data(std::string("\0\1\2", 3)).Make());
  EXPECT_THAT(ErrorOf(), HasSubstr("images has 4 images but "));
  EXPECT_THAT(ErrorOf(), HasSubstr("labels has 3 labels"));
}

TEST_F(DatasetTest, ImagesOfAnotherSizeThanTheModelsInputAreRefused) {
  EXPECT_THAT(ErrorOf({.example_shape = {28, 28, 1}, .classes = 3}),
              HasSubstr("has examples of shape [1, 2] (2 numbers each), the model's input is [28, 28, 1] (784 numbers)"));
}

TEST_F(DatasetTest, ImagesAndLabelsMixedUpAreToldApart) {
  std::swap(config_.train.images, config_.train.labels);
  EXPECT_THAT(ErrorOf(), HasSubstr("labels has examples of shape []"));
  EXPECT_THAT(ErrorOf({.example_shape = {1}, .classes = 3}),
              HasSubstr("images holds [4, 1, 2] of type unsigned byte, expected one whole number"));
}

TEST_F(DatasetTest, AnUncachedFileThatIsCutOffIsRefusedAtTheStart) {
  SetCache(false);
  Write("images", IdxMaker().Axes({4, 1, 2}).Data("\x01\x02\x03").Make());
  EXPECT_THAT(ErrorOf(), HasSubstr("has 19 bytes, expected 24"));
}

TEST_F(DatasetTest, AnUncachedFileThatShrinksIsNamedWithTheRecord) {
  SetCache(false);
  auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::filesystem::resize_file(config_.dir + "/images", 20);
  Batch batch;
  EXPECT_THAT(std::string((*dataset)->Read(std::vector<int64_t>{3}, batch).message()), HasSubstr("record 3 is gone"));
}

TEST_F(DatasetTest, AnEvalSplitThatIsNotConfiguredIsNotFound) {
  auto dataset = OpenDataset(config_, Split::kEval, {.example_shape = {2}, .classes = 3}, 1);
  EXPECT_EQ(dataset.status().code(), absl::StatusCode::kNotFound);
}

TEST(SampleData, TheDigitsThatShipAreWhole) {
  DataConfig config;
  config.dir = "examples/data/mnist";
  config.train = {.images = "t10k-images-idx3-ubyte.gz", .labels = "t10k-labels-idx1-ubyte.gz", .begin = 0, .end = 9000};
  config.eval = {.images = "t10k-images-idx3-ubyte.gz", .labels = "t10k-labels-idx1-ubyte.gz", .begin = 9000, .end = 10000};
  const ExpectedData expected{.example_shape = {28, 28, 1}, .classes = 10};
  auto train = OpenDataset(config, Split::kTrain, expected, 1);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->info().examples, 9000);
  auto eval = OpenDataset(config, Split::kEval, expected, 1);
  ASSERT_TRUE(eval.ok()) << eval.status();
  EXPECT_EQ((*eval)->info().examples, 1000);
  Batch batch;
  ASSERT_TRUE((*train)->Read(std::vector<int64_t>{0, 1, 2, 3}, batch).ok());
  EXPECT_THAT(batch.y.values<int32_t>(), ElementsAre(7, 2, 1, 0));
}

// Synthetic data.

DataConfig Synthetic(int64_t examples, double noise) {
  DataConfig config;
  config.format = DataConfig::Format::kSynthetic;
  config.train.examples = examples;
  config.eval = {.examples = examples};
  config.noise = noise;
  return config;
}

Batch ReadAll(const Dataset& dataset) {
  std::vector<int64_t> all(dataset.info().examples);
  std::iota(all.begin(), all.end(), 0);
  Batch batch;
  EXPECT_TRUE(dataset.Read(all, batch).ok());
  return batch;
}

TEST(SyntheticData, IsAFunctionOfTheSeed) {
  const ExpectedData expected{.example_shape = {3}, .classes = 4};
  const auto first = [&](uint64_t seed) {
    Batch batch = ReadAll(**OpenDataset(Synthetic(10, 0.1), Split::kTrain, expected, seed));
    auto values = batch.x.values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(first(7), first(7));
  EXPECT_NE(first(7), first(8));
}

TEST(SyntheticData, ExamplesOfAClassAreNearItsPatternInBothSplits) {
  const ExpectedData expected{.example_shape = {16}, .classes = 3};
  Batch train = ReadAll(**OpenDataset(Synthetic(60, 0.01), Split::kTrain, expected, 1));
  Batch eval = ReadAll(**OpenDataset(Synthetic(60, 0.01), Split::kEval, expected, 1));
  // Nearest training example decides the class of every evaluation example.
  const auto x = train.x.values<float>();
  const auto q = eval.x.values<float>();
  for (int64_t i = 0; i < eval.examples; ++i) {
    int nearest = -1;
    float best = 1e9F;
    for (int64_t j = 0; j < train.examples; ++j) {
      float distance = 0;
      for (int64_t k = 0; k < 16; ++k) distance += (x[j * 16 + k] - q[i * 16 + k]) * (x[j * 16 + k] - q[i * 16 + k]);
      if (distance < best) {
        best = distance;
        nearest = train.y.values<int32_t>()[j];
      }
    }
    EXPECT_GT(best, 0);
    EXPECT_EQ(nearest, eval.y.values<int32_t>()[i]);
  }
}

TEST(SyntheticData, RegressionTargetsAreLinearInTheFeatures) {
  const ExpectedData expected{.example_shape = {1}, .classes = 0, .target_shape = {1}};
  Batch batch = ReadAll(**OpenDataset(Synthetic(50, 0.0), Split::kTrain, expected, 3));
  const auto x = batch.x.values<float>();
  const auto y = batch.y.values<float>();
  const float slope = (y[1] - y[0]) / (x[1] - x[0]);
  for (size_t i = 2; i < x.size(); ++i) EXPECT_NEAR(y[i], y[0] + slope * (x[i] - x[0]), 1e-4);
}

TEST(SyntheticData, NoExamplesAreAnErrorOfTheField) {
  auto dataset = OpenDataset(Synthetic(0, 0.1), Split::kTrain, {.example_shape = {1}, .classes = 2}, 1);
  EXPECT_THAT(std::string(dataset.status().message()), HasSubstr("spec.training.data.train: examples is 0, expected at least 1"));
}

}  // namespace
}  // namespace trainyard::engine
