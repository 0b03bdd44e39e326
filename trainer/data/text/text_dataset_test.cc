#include "trainer/data/text/text_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "trainer/base/file.h"
#include "trainer/data/open/open_dataset.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A model of 3 steps over `classes` tokens.
ExpectedData Steps3(int classes = 100) {
  return {.example_shape = Shape({3}), .classes = classes, .target_shape = {}, .vocabulary = classes, .label_shape = Shape({3})};
}

class TextDatasetTest : public ::testing::Test {
 protected:
  TextDatasetTest() : dir_(std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(dir_);
  }
  ~TextDatasetTest() override { std::filesystem::remove_all(dir_); }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = dir_ / name;
    EXPECT_TRUE(WriteFileDurably(path, text).ok());
    return path;
  }
  // The data of a job whose one file is `text`, by words.
  DataConfig Config(const std::string& text) const {
    Write("train.txt", text);
    DataConfig config{.format = DataConfig::Format::kText, .dir = dir_};
    config.train.files = {"train.txt"};
    return config;
  }

  const std::filesystem::path dir_;
};

std::string MessageOf(const DataConfig& config, const ExpectedData& expected, Split split = Split::kTrain) {
  return std::string(OpenDataset(config, split, expected, 1).status().message());
}

std::vector<std::string> TextOf(const Dataset& dataset, const Tensor& tokens) {
  std::vector<std::string> text;
  for (const int32_t id : tokens.values<const int32_t>()) text.push_back(dataset.info().vocabulary->token(id));
  return text;
}

TEST_F(TextDatasetTest, LabelsAreTheTokensThatFollow) {
  const auto data = OpenDataset(Config("a b c d e f"), Split::kTrain, Steps3(), 1);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->info().examples, 3) << "windows of 3 tokens with a token after each";
  Batch batch;
  ASSERT_TRUE((*data)->Read(std::vector<int64_t>{2, 0}, batch).ok());
  EXPECT_EQ(batch.x.shape, Shape({2, 3}));
  EXPECT_EQ(batch.y.shape, Shape({2, 3}));
  EXPECT_THAT(TextOf(**data, batch.x), ElementsAre("c", "d", "e", "a", "b", "c"));
  EXPECT_THAT(TextOf(**data, batch.y), ElementsAre("d", "e", "f", "b", "c", "d"));
}

TEST_F(TextDatasetTest, FilesFollowEachOtherPackedOrNot) {
  DataConfig config = Config("a b ");
  gzFile packed = gzopen((dir_ / "more.txt.gz").c_str(), "wb");
  gzputs(packed, "c d e");
  gzclose(packed);
  config.train.files.emplace_back("more.txt.gz");
  const auto data = OpenDataset(config, Split::kTrain, Steps3(), 1);
  ASSERT_TRUE(data.ok()) << data.status();
  Batch batch;
  ASSERT_TRUE((*data)->Read(std::vector<int64_t>{1}, batch).ok());
  EXPECT_THAT(TextOf(**data, batch.y), ElementsAre("c", "d", "e"));
}

TEST_F(TextDatasetTest, EvaluationUsesTheVocabularyOfTheTrainingText) {
  DataConfig config = Config("a a a a b b b c c d");
  config.vocabulary = 3;
  Write("eval.txt", "b d b other");
  config.eval.emplace();
  config.eval->files = {"eval.txt"};
  const auto data = OpenDataset(config, Split::kEval, Steps3(), 1);
  ASSERT_TRUE(data.ok()) << data.status();
  Batch batch;
  ASSERT_TRUE((*data)->Read(std::vector<int64_t>{0}, batch).ok());
  EXPECT_THAT(TextOf(**data, batch.x), ElementsAre("b", "<unk>", "b"));
  EXPECT_EQ(batch.x.values<const int32_t>()[0], 1);
}

TEST_F(TextDatasetTest, FractionsOfOneFileMeetWithoutSharingTokens) {
  DataConfig config = Config("a b c d e f g h i j a");
  config.train.fraction_end = 0.6;  // 6 of 11
  config.eval = config.train;
  config.eval->fraction_begin = 0.6;
  config.eval->fraction_end = 1;
  const auto train = OpenDataset(config, Split::kTrain, Steps3(), 1);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->info().examples, 6 - 3);
  EXPECT_EQ((*train)->info().vocabulary->size(), 7) << "tokens of the training part only, and <unk>";
  const auto eval = OpenDataset(config, Split::kEval, Steps3(), 1);
  ASSERT_TRUE(eval.ok()) << eval.status();
  EXPECT_EQ((*eval)->info().examples, 5 - 3);
  Batch batch;
  ASSERT_TRUE((*eval)->Read(std::vector<int64_t>{0, 1}, batch).ok());
  EXPECT_THAT(TextOf(**eval, batch.y), ElementsAre("<unk>", "<unk>", "<unk>", "<unk>", "<unk>", "a")) << "a token that is new ends no job";
}

TEST_F(TextDatasetTest, ARangeCountsTokens) {
  DataConfig config = Config("a b c d e f g");
  config.train.begin = 1;
  config.train.end = 5;
  const auto data = OpenDataset(config, Split::kTrain, Steps3(), 1);
  ASSERT_TRUE(data.ok()) << data.status();
  Batch batch;
  ASSERT_TRUE((*data)->Read(std::vector<int64_t>{0}, batch).ok());
  EXPECT_THAT(TextOf(**data, batch.y), ElementsAre("c", "d", "e"));
  config.train.end = 8;
  EXPECT_THAT(MessageOf(config, Steps3()), HasSubstr("range [1, 8) does not fit into the 7 tokens of"));
}

TEST_F(TextDatasetTest, WhatDoesNotFitTheModelIsNamed) {
  const DataConfig config = Config("a b c d e f");
  EXPECT_THAT(MessageOf(config, {.example_shape = Shape({28, 28, 1}), .classes = 10, .target_shape = {}}),
              HasSubstr("this one's input is numbers of [28, 28, 1], its labels are class numbers of []"));
  EXPECT_THAT(MessageOf(Config("a b c"), Steps3()), HasSubstr(": found 3 tokens, expected 4 or more for the model's 3 steps"));
  DataConfig part = config;
  part.train.begin = 2;
  part.train.end = 3;
  EXPECT_THAT(MessageOf(part, Steps3()), ::testing::AllOf(HasSubstr("range [2, 3) of "), HasSubstr(": found 1 token, expected 4 or more")));
  DataConfig large = Config("a b c d e f");
  large.vocabulary = 6;
  EXPECT_THAT(
      MessageOf(large, Steps3(5)),
      HasSubstr("the vocabulary has 6 tokens, the model takes 5 and has 5 classes; set data.vocabulary to 5 or make the model larger"));
}

TEST_F(TextDatasetTest, WithoutALimitTheVocabularyIsAsLargeAsTheModel) {
  const auto data = OpenDataset(Config("a a b b c d e"), Split::kTrain, Steps3(3), 1);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->info().vocabulary->size(), 3);
}

TEST_F(TextDatasetTest, DamagedFilesAreNamed) {
  EXPECT_THAT(MessageOf(Config(""), Steps3()), HasSubstr("train.txt is empty, expected text"));
  EXPECT_THAT(MessageOf(Config("a \xfe"), Steps3()), HasSubstr("train.txt is not UTF-8: found the byte 0xfe at byte 2;"));
  EXPECT_THAT(MessageOf(Config("\x1f\x8b\x08 cut"), Steps3()), HasSubstr("train.txt"));
  DataConfig missing = Config("a");
  missing.train.files = {"none.txt"};
  EXPECT_THAT(MessageOf(missing, Steps3()), HasSubstr("none.txt: No such file or directory"));
}

TEST_F(TextDatasetTest, OtherFormatsDoNotFitAModelOfTokens) {
  DataConfig config{.format = DataConfig::Format::kSynthetic};
  config.train.examples = 10;
  EXPECT_THAT(MessageOf(config, Steps3()), HasSubstr("the model takes tokens and labels of [3]; use format: text"));
}

}  // namespace
}  // namespace trainyard::engine
