#include "trainer/data/formats/cifar10.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/file.h"
#include "trainer/data/open/open_dataset.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A record whose pixel p has red p % 251, green 1 more, blue 2 more.
std::string Record(int label) {
  std::string record(1, static_cast<char>(label));
  for (int plane = 0; plane < 3; ++plane) {
    for (int pixel = 0; pixel < kCifarPlane; ++pixel) record.push_back(static_cast<char>(pixel % 251 + plane));
  }
  return record;
}

absl::StatusOr<CifarRecords> Read(const std::string& bytes, int classes = 10, uint64_t max_bytes = 1 << 20) {
  CifarRecords records;
  if (absl::Status status = AppendCifar10(*MemorySource(bytes), "batch.bin", classes, max_bytes, records); !status.ok()) return status;
  return records;
}

TEST(Cifar10, PlanesBecomePixels) {
  const auto records = Read(Record(3) + Record(9));
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(records->labels, ElementsAre(3, 9));
  ASSERT_EQ(records->images.size(), 2U * kCifarPixels);
  for (const int pixel : {0, 1, 33, 300, 1023}) {
    for (int plane = 0; plane < 3; ++plane) EXPECT_EQ(records->images[kCifarPixels + pixel * 3 + plane], pixel % 251 + plane);
  }
}

TEST(Cifar10, DamagedFilesAreErrorsThatNameFileRecordAndBytes) {
  EXPECT_EQ(Read("").status().message(), "batch.bin is empty, expected CIFAR-10 records of 3073 bytes");
  EXPECT_EQ(Read(Record(1) + Record(2).substr(0, 100)).status().message(),
            "batch.bin ends within record 1: found 100 bytes of it, expected 3073 (a label and 32 x 32 pixels in 3 planes)");
  const auto label = Read(Record(1) + Record(10));
  EXPECT_TRUE(absl::IsOutOfRange(label.status()));
  EXPECT_EQ(label.status().message(), "batch.bin: label 10 of record 1 is not one of the model's 10 classes (0 to 9)");
  EXPECT_TRUE(absl::IsInvalidArgument(Read(Record(1) + Record(2), 10, kCifarPixels).status()));
}

class Cifar10Files : public testing::Test {
 protected:
  Cifar10Files() {
    dir_ = ::testing::TempDir() + "cifar10_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(dir_);
    EXPECT_TRUE(WriteFileDurably(dir_ + "/a", Record(0) + Record(1)).ok());
    EXPECT_TRUE(WriteFileDurably(dir_ + "/b", Record(2) + Record(3) + Record(4)).ok());
    config_ = {.format = DataConfig::Format::kCifar10, .dir = dir_, .train = {}, .eval = {}};
    config_.train.files = {"a", "b"};
  }

  std::string ErrorOf(const ExpectedData& expected) {
    const auto dataset = OpenDataset(config_, Split::kTrain, expected, 1);
    EXPECT_FALSE(dataset.ok());
    return std::string(dataset.status().message());
  }

  std::string dir_;
  DataConfig config_;
};

TEST_F(Cifar10Files, FollowEachOtherAndARangeChoosesAmongThem) {
  config_.train.begin = 1;
  config_.train.end = 4;
  const auto dataset = OpenDataset(config_, Split::kTrain, {.example_shape = {32, 32, 3}, .classes = 10}, 1);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().examples, 3);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read(std::vector<int64_t>{2, 0}, batch).ok());
  EXPECT_THAT(batch.y.values<int32_t>(), ElementsAre(3, 1));
  EXPECT_EQ(batch.x.shape, Shape({2, 32, 32, 3}));
  EXPECT_FLOAT_EQ(batch.x_scale, 1.0F / 255.0F);
}

TEST_F(Cifar10Files, ModelsAndRangesThatDoNotFitAreNamed) {
  EXPECT_THAT(ErrorOf({.example_shape = {28, 28, 1}, .classes = 10}),
              HasSubstr("CIFAR-10 has images of [32, 32, 3], the model's input is"));
  EXPECT_THAT(ErrorOf({.example_shape = {32, 32, 3}, .classes = 3}),
              HasSubstr("b: label 3 of record 1 is not one of the model's 3 classes"));
  config_.train.end = 6;
  EXPECT_THAT(ErrorOf({.example_shape = {32, 32, 3}, .classes = 10}), HasSubstr("range [0, 6) does not fit into the 5 records of 2 files"));
  config_.train = {};
  config_.train.files = {"missing"};
  EXPECT_THAT(ErrorOf({.example_shape = {32, 32, 3}, .classes = 10}), HasSubstr("missing"));
}

}  // namespace
}  // namespace trainyard::engine
