#include "trainer/data/formats/tfrecord_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/file.h"
#include "trainer/data/golden_data.h"
#include "trainer/tfrecord/tfrecord.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TfRecordFiles RecordFiles(const std::vector<std::string>& names) {
  TfRecordFiles files;
  for (const std::string& name : names) files.paths.push_back(GoldenPath(name));
  return files;
}

std::string ErrorOf(const TfRecordFiles& files, const ExpectedData& expected = GoldenExpected()) {
  return RefusalOf(OpenTfRecordDataset(files, expected));
}

void ExpectExamples(TfRecordFiles files, const std::vector<int64_t>& indices, const ReadExamples& expected) {
  for (const bool in_memory : {true, false}) {
    files.in_memory = in_memory;
    ExpectOpened(OpenTfRecordDataset(files, GoldenExpected()), indices, expected);
  }
}

TEST(TfRecordDataset, FilesOfTensorFlowAreReadWithEveryKindOfFeature) {
  ExpectExamples(RecordFiles({"bytes.tfrecord"}), {5, 0, 3}, GoldenExamples({5, 0, 3}, 255.0F));
  ExpectExamples(RecordFiles({"bytes.tfrecord.gz"}), {1, 4}, GoldenExamples({1, 4}, 255.0F));
  ExpectExamples(RecordFiles({"floats.tfrecord"}), {2, 5}, GoldenExamples({2, 5}));
  ExpectExamples(RecordFiles({"int64.tfrecord"}), {5}, GoldenExamples({5}));
}

TEST(TfRecordDataset, FeaturesMayHaveOtherNames) {
  TfRecordFiles files = RecordFiles({"named.tfrecord"});
  EXPECT_THAT(ErrorOf(files), AllOf(HasSubstr("named.tfrecord: record 0 has no feature \"image_raw\""),
                                    HasSubstr("it has \"class\", \"height\", \"pixels\". Name the right ones in data.features")));
  files.features = {.image = "pixels", .label = "class"};
  ExpectExamples(files, {0, 1}, GoldenExamples({0, 1}, 255.0F));
}

TEST(TfRecordDataset, FilesFollowEachOtherAndARangeChoosesAmongThem) {
  TfRecordFiles files = RecordFiles({"part0.tfrecord", "part1.tfrecord"});
  ExpectExamples(files, {5, 4, 3, 0}, GoldenExamples({5, 4, 3, 0}, 255.0F));
  files.range = {.begin = 3, .end = 5};
  ExpectExamples(files, {1, 0}, GoldenExamples({4, 3}, 255.0F));
  for (const bool in_memory : {true, false}) {
    files.in_memory = in_memory;
    EXPECT_THAT((*OpenTfRecordDataset(files, GoldenExpected()))->info().files, ElementsAre(1, 1));
  }
  files.range = {.begin = 3, .end = 7};
  EXPECT_THAT(ErrorOf(files), HasSubstr("range [3, 7) does not fit into the 6 records of"));
}

TEST(TfRecordDataset, WhatDoesNotFitTheModelIsNamed) {
  EXPECT_THAT(ErrorOf(RecordFiles({"bytes.tfrecord"}), {.example_shape = {7}, .classes = 3}),
              HasSubstr("bytes.tfrecord: the example of record 0 has 6 numbers, the model's input is [7] (7 numbers)"));
  EXPECT_THAT(ErrorOf(RecordFiles({"bytes.tfrecord"}), {.example_shape = {6}, .classes = 2}),
              HasSubstr("label 2 of record 2 is not one of"));
  EXPECT_THAT(ErrorOf(RecordFiles({"bytes.tfrecord", "floats.tfrecord"})),
              HasSubstr("floats.tfrecord: the example of record 0 is of float32, those before it are of uint8"));
  EXPECT_THAT(ErrorOf(RecordFiles({"png.tfrecord"})),
              HasSubstr("record 0 has a PNG file in feature \"image_raw\"; only raw pixels are read"));
}

class DamagedTfRecord : public testing::Test {
 protected:
  DamagedTfRecord() {
    folder_ = ::testing::TempDir() + "tfrecord_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    good_ = *ReadFile(GoldenPath("bytes.tfrecord"));
  }
  TfRecordFiles Written(const std::string& bytes, bool in_memory = true) {
    EXPECT_TRUE(WriteFileDurably(folder_ + "/f.tfrecord", bytes).ok());
    return {.paths = {folder_ + "/f.tfrecord"}, .in_memory = in_memory};
  }
  std::string folder_;
  std::string good_;
};

TEST_F(DamagedTfRecord, IsNamedByFileRecordAndByte) {
  const size_t record = good_.size() / 6;
  std::string flipped = good_;
  flipped[2 * record + 20] = static_cast<char>(flipped[2 * record + 20] ^ 1);
  for (const bool in_memory : {true, false}) {
    EXPECT_THAT(ErrorOf(Written(flipped, in_memory)),
                AllOf(HasSubstr("f.tfrecord: record 2 at byte 152 is damaged"), HasSubstr("does not match its checksum")));
  }
  std::string length = good_;
  length[record] = static_cast<char>(length[record] ^ 1);
  EXPECT_THAT(ErrorOf(Written(length)), HasSubstr("record 1 at byte 76 is damaged: record's length does not match its checksum"));
  EXPECT_THAT(ErrorOf(Written(good_.substr(0, good_.size() - 1))), HasSubstr("record 5 at byte 380 is damaged: the file ends inside it"));
  EXPECT_THAT(ErrorOf(Written(good_.substr(0, record + 5))), HasSubstr("record 1 at byte 76 is damaged: the file ends inside its length"));
  EXPECT_THAT(ErrorOf(Written("")), HasSubstr("holds no records"));
  std::string text;
  AppendTfRecord("no message", text);
  EXPECT_THAT(ErrorOf(Written(text)), HasSubstr("record 0 of 10 bytes is not a tf.Example"));
}

TEST_F(DamagedTfRecord, IsNoticedAfterTheStartToo) {
  const auto dataset = OpenTfRecordDataset(Written(good_, /*in_memory=*/false), GoldenExpected());
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::string flipped = good_;
  flipped[20] = static_cast<char>(flipped[20] ^ 1);
  Written(flipped);
  Batch batch;
  EXPECT_TRUE((*dataset)->Read(std::vector<int64_t>{1}, batch).ok());
  const absl::Status status = (*dataset)->Read(std::vector<int64_t>{0}, batch);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("written over while it was in use"), HasSubstr("record 0")));
}

}  // namespace
}  // namespace trainyard::engine
