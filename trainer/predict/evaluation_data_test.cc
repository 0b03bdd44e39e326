#include "trainer/predict/evaluation_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trainyard::engine {
namespace {

TEST(EvaluatedWhole, RangesOfTheSameFilesAreLeftAside) {
  DataConfig data{.format = DataConfig::Format::kIdx};
  data.train = {.images = "i", .labels = "l", .end = 90};
  data.eval = {.images = "i", .labels = "l", .begin = 90, .end = 100};
  EXPECT_EQ(EvaluatedWhole(data).eval->begin, 0);
  EXPECT_EQ(EvaluatedWhole(data).eval->end, -1);
  data.eval->images = "other";
  EXPECT_EQ(EvaluatedWhole(data), data);
  data.eval = data.train;
  data.format = DataConfig::Format::kText;
  EXPECT_EQ(EvaluatedWhole(data), data);
}

TEST(EvaluatedFile, HasAllExamplesOfTheFile) {
  DataConfig data{.format = DataConfig::Format::kTfRecord};
  data.train = {.files = {"a", "b"}, .end = 90};
  data.eval = {.files = {"a", "b"}, .begin = 90, .end = 100};
  const auto whole = EvaluatedFile(data, "c", /*keep_part=*/false);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->eval->files, std::vector<std::string>{"c"});
  EXPECT_EQ(whole->eval->begin, 0);
  EXPECT_EQ(whole->eval->end, -1);
  EXPECT_EQ(EvaluatedFile(data, "c", /*keep_part=*/true)->eval->begin, 90);
  EXPECT_FALSE(EvaluatesFile(data, "a"));
  EXPECT_TRUE(EvaluatesFile(*whole, "c"));
}

TEST(EvaluatedFile, NeedsNoEvaluationInTheJob) {
  DataConfig data{.format = DataConfig::Format::kNumpy};
  data.train = {.images = "x", .labels = "y", .archive = "train.npz", .end = 90};
  const auto file = EvaluatedFile(data, "test.npz", /*keep_part=*/false);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->eval, (DataSplit{.images = "x", .labels = "y", .archive = "test.npz"}));
  EXPECT_FALSE(EvaluatesFile(data, "train.npz"));
}

TEST(EvaluatedFile, IsRefusedWhereDataIsSeveralFiles) {
  using Format = DataConfig::Format;
  for (const Format format : {Format::kIdx, Format::kNumpy, Format::kText, Format::kStore, Format::kImages, Format::kSynthetic}) {
    const auto file = EvaluatedFile({.format = format}, "c", /*keep_part=*/false);
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(file.status().message()), ::testing::StartsWith("found a file, expected the folder of the "));
  }
}

}  // namespace
}  // namespace trainyard::engine
