#include "trainer/checkpoint/model_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trainer/job/job_config.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kName[] = "out/step-1/model.json";

TrainingConfig Training(const std::string& data = "{format: synthetic, train: {examples: 8}, eval: {examples: 4}}",
                        const std::string& model = "{preset: lenet5}") {
  const auto training = ParseTrainingText("model: " + model + "\ndata: " + data + "\nbatchSize: 16\nsteps: 5\nseed: 9\n", "training.yaml");
  EXPECT_TRUE(training.ok()) << training.status();
  return *training;
}

std::string Text(const TrainingConfig& training, const std::string& vocabulary = "") {
  const auto description = DescribeModel(training, vocabulary);
  EXPECT_TRUE(description.ok()) << description.status();
  return *DescriptionJson(*description);
}

std::string ErrorOf(const std::string& text) { return std::string(ParseDescription(text, kName).status().message()); }

TEST(ModelDescription, WhatIsWrittenIsRead) {
  const std::string text =
      Text(Training("{format: cifar10, dir: d, classes: [a, b, c, d, e, f, g, h, i, j], train: {files: [x]}, pipeline: [read, cache, "
                    "{map: {flip: true, normalize: {mean: [0.1, 0.2, 0.3], std: 2}}}, {map: {normalize: {scale: 3}}}]}",
                    "{preset: lenet5, inputShape: [32, 32, 3]}"));
  const auto read = ParseDescription(text, kName);
  ASSERT_TRUE(read.ok()) << read.status() << text;
  EXPECT_EQ(read->training.model.name, "lenet5");
  EXPECT_EQ(read->training.batch_size, 16);
  EXPECT_EQ(read->training.seed, 9);
  EXPECT_EQ(read->training.data.dir, "d");
  EXPECT_THAT(read->classes, ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"));
  ASSERT_THAT(read->transforms.examples, SizeIs(2));  // no flip, no cache
  const auto& first = std::get<MapConfig>(read->transforms.examples[0]);
  EXPECT_FALSE(first.augment.any());
  EXPECT_THAT(first.normalize.mean, ElementsAre(0.1, 0.2, 0.3));
  EXPECT_THAT(first.normalize.std, ElementsAre(2));
  EXPECT_EQ(std::get<MapConfig>(read->transforms.examples[1]).normalize.scale, 3);
  EXPECT_EQ(*DescriptionJson(*read), text);
}

TEST(ModelDescription, WithoutTransformsItIsTheSameToo) {
  const std::string text = Text(Training());
  const auto read = ParseDescription(text, kName);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->transforms.examples, IsEmpty());
  EXPECT_EQ(*DescriptionJson(*read), text);
}

TEST(ModelDescription, OtherProgramsFindShapesAndClasses) {
  const json lenet = json::parse(Text(Training()));
  EXPECT_EQ(lenet["format"], "trainyard-model");
  EXPECT_EQ(lenet["version"], 1);
  EXPECT_EQ(lenet["input"], json::parse(R"({"shape": [28, 28, 1]})"));
  EXPECT_EQ(lenet["output"], json::parse(R"({"classes": 10})"));
  EXPECT_EQ(lenet["classes"][9], "9");
  EXPECT_EQ(lenet["transforms"], json::array());
  const json linear = json::parse(Text(Training("{format: synthetic, train: {examples: 8}}", "{preset: linear}")));
  EXPECT_EQ(linear["output"], json::parse(R"({"shape": [1]})"));
  EXPECT_FALSE(linear.contains("classes"));
}

TEST(ModelDescription, ClassesOfRowsAreThoseOfTheDataToo) {
  const std::string dir = ::testing::TempDir() + "model_description_rows";
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/rows.csv") << "x,kind\n1,cat\n2,dog\n";
  const TrainingConfig training = Training("{format: csv, dir: " + dir + ", train: {files: [rows.csv]}, label: kind}",
                                           "{layers: [{dense: {units: 2}}], input: {shape: [1]}, loss: softmaxCrossEntropy}");
  const auto described = DescribeModel(training, "");
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_THAT(described->classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(described->training.data.classes, ElementsAre("cat", "dog"));
  const auto read = ParseDescription(*DescriptionJson(*described), kName);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->training.data, described->training.data);
}

TEST(ModelDescription, AStandardisedLabelIsKept) {
  const std::string dir = ::testing::TempDir() + "model_description_label";
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/rows.csv") << "x,price\n1,1000\n2,3000\n";
  const TrainingConfig training = Training(
      "{format: csv, dir: " + dir + ", train: {files: [rows.csv]}, label: price, standardizeLabel: true}", "{preset: linear, inputs: 1}");
  const auto described = DescribeModel(training, "");
  ASSERT_TRUE(described.ok()) << described.status();
  json text = json::parse(*DescriptionJson(*described));
  EXPECT_EQ(text["label"], json::parse(R"({"mean": 2000, "std": 1000})"));
  const auto read = ParseDescription(text.dump(), kName);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->training.data, described->training.data);
  text["label"]["std"] = 0;
  EXPECT_THAT(std::string(ParseDescription(text.dump(), kName).status().message()), HasSubstr("label.std: found 0"));
  text.erase("label");
  EXPECT_THAT(std::string(ParseDescription(text.dump(), kName).status().message()), HasSubstr("label: missing, expected the mean and std"));
}

TEST(ModelDescription, OfTextNamesItsVocabulary) {
  const json text = json::parse(Text(Training("{format: text, train: {files: [t]}}", "{preset: ptbLstm, vocabulary: 9, steps: 4}"), "abc"));
  EXPECT_EQ(text["input"], json::parse(R"({"shape": [4], "vocabulary": 9})"));
  EXPECT_EQ(text["output"], json::parse(R"({"classes": 9, "shape": [4]})"));
  EXPECT_EQ(text["vocabulary"], json::parse(R"({"file": "vocabulary.json", "sha256": "abc"})"));
  EXPECT_EQ(ParseDescription(text.dump(), kName)->vocabulary_sha256, "abc");
}

TEST(ModelDescription, OverridesChangeTheJob) {
  const std::vector<std::string> overrides = {"training.data.eval.examples=77"};
  const auto read = ParseDescription(Text(Training()), kName, overrides);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->training.data.eval->examples, 77);
}

TEST(ModelDescription, WhatIsNoDescriptionIsToldApart) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("out/step-1/model.json is not a JSON object, expected a model's description"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("has no format or version"));
  EXPECT_THAT(ErrorOf(R"({"format": "trainyard-model", "version": 2})"), HasSubstr("is of format 'trainyard-model' version 2, expected"));
  EXPECT_THAT(ErrorOf(R"({"format": "trainyard-model", "version": 1})"), HasSubstr("training: missing"));
  EXPECT_THAT(ErrorOf(std::string(1 << 20, '[')), HasSubstr("is not a JSON object"));
  EXPECT_THAT(ErrorOf("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}"), HasSubstr("is not a JSON object"));
}

TEST(ModelDescription, EveryWrongFieldIsNamed) {
  const json good = json::parse(Text(Training()));
  const auto error_with = [&](const char* pointer, const json& value) {
    json text = good;
    text[json::json_pointer(pointer)] = value;
    return ErrorOf(text.dump());
  };
  EXPECT_THAT(error_with("/training", 5), HasSubstr("spec.training"));
  EXPECT_THAT(error_with("/training/model/preset", "vgg"), HasSubstr("spec.training.model.preset: found \"vgg\""));
  EXPECT_THAT(error_with("/training/batchSize", 0), HasSubstr("spec.training.batchSize: found 0"));
  EXPECT_THAT(error_with("/classes", {"a", "b"}), HasSubstr("classes: found 2 names, expected 10"));
  EXPECT_THAT(error_with("/classes/3", "a\033b"), HasSubstr("classes: found a name that is empty"));
  EXPECT_THAT(error_with("/classes/3", 3), HasSubstr("classes[3]: found 3, expected a text"));
  EXPECT_THAT(error_with("/transforms", {"shuffle"}), HasSubstr("transforms: found other stages"));
  EXPECT_THAT(error_with("/transforms", json::parse(R"([{"map": {"normalize": {"std": 0}}}])")),
              HasSubstr("transforms[0].map.normalize.std"));
  EXPECT_THAT(error_with("/vocabulary", 4), HasSubstr("vocabulary"));
}

TEST(ModelDescription, WhatIsUnknownIsIgnored) {
  json text = json::parse(Text(Training()));
  text["later"] = {1, 2};
  EXPECT_TRUE(ParseDescription(text.dump(), kName).ok());
}

}  // namespace
}  // namespace trainyard::engine
