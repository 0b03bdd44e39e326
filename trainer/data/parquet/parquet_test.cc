// The module and the data set together; built where Arrow is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "trainer/base/file.h"
#include "trainer/data/formats/parquet_dataset.h"
#include "trainer/data/golden_data.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParquetFiles Files(const std::vector<std::string>& names) {
  ParquetFiles files{.paths = {}, .columns = {.image = "image", .label = "label"}, .module = TRAINYARD_PARQUET_MODULE};
  for (const std::string& name : names) files.paths.push_back(GoldenPath(name));
  return files;
}

std::string ErrorOf(const ParquetFiles& files, const ExpectedData& expected = GoldenExpected()) {
  return RefusalOf(OpenParquetDataset(files, expected));
}

void ExpectExamples(const ParquetFiles& files, const std::vector<int64_t>& indices, const ReadExamples& expected) {
  ExpectOpened(OpenParquetDataset(files, GoldenExpected()), indices, expected);
}

TEST(Parquet, FilesOfPyarrowAreReadWithEveryKindOfColumn) {
  const std::vector<int64_t> indices{5, 0, 3};
  for (const char* name : {"binary.parquet", "fixed_binary.parquet", "list_uint8.parquet"}) {
    SCOPED_TRACE(name);
    ExpectExamples(Files({name}), indices, GoldenExamples(indices, 255.0F));
  }
  for (const char* name : {"list_float.parquet", "fixed_list_double.parquet"}) {
    SCOPED_TRACE(name);
    ExpectExamples(Files({name}), indices, GoldenExamples(indices));
  }
}

TEST(Parquet, FilesFollowEachOtherAndARangeChoosesAmongThem) {
  ParquetFiles files = Files({"binary.parquet", "list_uint8.parquet"});
  files.range = {.begin = 5, .end = 8};
  ExpectExamples(files, {0, 1, 2}, GoldenExamples({5, 0, 1}, 255.0F));
  EXPECT_THAT((*OpenParquetDataset(files, GoldenExpected()))->info().files, ElementsAre(1, 2));
}

TEST(Parquet, WhatDoesNotFitIsNamed) {
  ParquetFiles files = Files({"binary.parquet"});
  files.columns.image = "pixels";
  EXPECT_THAT(ErrorOf(files), AllOf(HasSubstr("has no column \"pixels\"; it has \"image\", \"label\""), HasSubstr("data.features")));
  EXPECT_THAT(ErrorOf(Files({"with_null.parquet"})),
              HasSubstr("with_null.parquet cannot be read as Parquet: record 1: column \"image\" has no value"));
  EXPECT_THAT(ErrorOf(Files({"strings.parquet"})), HasSubstr("column \"image\" has values of type string, expected binary"));
  EXPECT_THAT(ErrorOf(Files({"binary.parquet"}), {.example_shape = {7}, .classes = 3}), HasSubstr("the example of record 0 has 6 numbers"));
  EXPECT_THAT(ErrorOf(Files({"binary.parquet"}), {.example_shape = {6}, .classes = 2}), HasSubstr("label 2 of record 2 is not one of"));
  EXPECT_THAT(ErrorOf(Files({"bytes.tfrecord"})), HasSubstr("bytes.tfrecord cannot be read as Parquet"));
  EXPECT_THAT(ErrorOf(Files({"missing.parquet"})), HasSubstr("missing.parquet: No such file"));
}

TEST(Parquet, NoMoreMemoryIsTakenThanIsAllowed) {
  ParquetFiles files = Files({});
  files.paths = {"trainer/data/parquet/testdata/parquet_fuzz/claims_256_gib.parquet"};  // a golden file with a few bytes wrong
  EXPECT_THAT(ErrorOf(files), AllOf(HasSubstr("claims_256_gib.parquet cannot be read as Parquet"), HasSubstr("limit=68719476736")));
  files = Files({"binary.parquet"});
  files.max_bytes = 8;
  EXPECT_THAT(ErrorOf(files), AllOf(HasSubstr("binary.parquet cannot be read as Parquet"), HasSubstr("limit=8")));
}

// Every byte of every file wrong once, and every file cut off anywhere: read as something or
// refused with a message, never more.
TEST(Parquet, DamagedFilesAreRefusedOrRead) {
  const std::string folder = ::testing::TempDir() + "parquet_damaged";
  std::filesystem::create_directories(folder);
  ParquetFiles files = Files({});
  files.paths = {folder + "/x.parquet"};
  const auto open = [&](const std::string& bytes) {
    std::ofstream(files.paths[0], std::ios::binary | std::ios::trunc) << bytes;
    const auto dataset = OpenParquetDataset(files, GoldenExpected());
    if (!dataset.ok()) {
      EXPECT_THAT(std::string(dataset.status().message()), HasSubstr("x.parquet"));
    }
    return dataset.ok();
  };
  for (const char* name : {"binary.parquet", "list_float.parquet"}) {
    const std::string good = *ReadFile(GoldenPath(name));
    EXPECT_TRUE(open(good));
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ 0x41);
      open(bytes);
    }
    for (size_t size = 0; size < good.size(); size += 7) EXPECT_FALSE(open(good.substr(0, size)));
  }
}

}  // namespace
}  // namespace trainyard::engine
