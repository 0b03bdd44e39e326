#include "trainer/data/formats/numpy_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/file.h"
#include "trainer/data/formats/npy.h"
#include "trainer/data/golden_data.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

NumpyFiles Files(const std::string& images, const std::string& labels = "y_int64.npy") {
  return {.images = GoldenPath(images), .labels = GoldenPath(labels)};
}

std::string ErrorOf(const NumpyFiles& files, const ExpectedData& expected = GoldenExpected()) {
  return RefusalOf(OpenNumpyDataset(files, expected));
}

void ExpectExamples(const NumpyFiles& files, const std::vector<int64_t>& indices, const ReadExamples& expected) {
  ExpectOpened(OpenNumpyDataset(files, GoldenExpected()), indices, expected);
}

TEST(NumpyDataset, EveryTypeIsReadFromMemoryAndFromTheFile) {
  for (const char* type : {"int32", "int64", "float32", "float64", "uint8"}) {
    for (const bool in_memory : {true, false}) {
      SCOPED_TRACE(testing::Message() << type << (in_memory ? " in memory" : " in the file"));
      NumpyFiles files = Files(std::string("x_") + type + ".npy", "y_uint8.npy");
      files.in_memory = in_memory;
      ExpectExamples(files, {5, 0, 3}, GoldenExamples({5, 0, 3}, std::string(type) == "uint8" ? 255.0F : 1.0F));
    }
  }
}

TEST(NumpyDataset, ARangeCountsItsOwnExamplesFromZero) {
  for (const bool in_memory : {true, false}) {
    NumpyFiles files = Files("x_float32.npy");
    files.in_memory = in_memory;
    files.range = {.begin = 2, .end = 5};
    ExpectExamples(files, {0, 2}, GoldenExamples({2, 4}));
  }
}

TEST(NumpyDataset, HeadersOfVersionTwoAreRead) { ExpectExamples(Files("x_version2.npy"), {1}, GoldenExamples({1})); }

TEST(NumpyDataset, ArchivesAreReadPackedOrNot) {
  for (const char* archive : {"stored.npz", "packed.npz"}) {
    ExpectExamples({.archive = GoldenPath(archive), .images = "x_train", .labels = "y_train"}, {0, 1, 5},
                   GoldenExamples({0, 1, 5}, 255.0F));
  }
}

TEST(NumpyDataset, TargetsAreReadAsTheyStand) {
  const auto dataset = OpenNumpyDataset(Files("x_float32.npy", "targets.npy"), {.example_shape = {6}, .classes = 0, .target_shape = {2}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch;
  ASSERT_TRUE((*dataset)->Read(std::vector<int64_t>{3}, batch).ok());
  EXPECT_THAT(batch.y.values<float>(), ElementsAre(15.0F, 15.5F));
}

TEST(NumpyDataset, WhatIsNotReadIsRefusedByName) {
  EXPECT_THAT(ErrorOf(Files("x_fortran.npy")), AllOf(HasSubstr("x_fortran.npy is in Fortran order"), HasSubstr("ascontiguousarray")));
  EXPECT_THAT(ErrorOf(Files("x_big_endian.npy")), HasSubstr("has elements of type '>f4', expected one of |u1"));
  EXPECT_THAT(ErrorOf(Files("bytes.tfrecord")), HasSubstr("bytes.tfrecord is not a numpy file"));
  EXPECT_THAT(ErrorOf(Files("x_uint8.npy"), {.example_shape = {7}, .classes = 3}),
              HasSubstr("x_uint8.npy has examples of shape [2, 3] (6 numbers each), the model's input is [7] (7 numbers)"));
  EXPECT_THAT(ErrorOf(Files("x_uint8.npy"), {.example_shape = {6}, .classes = 2}),
              HasSubstr("y_int64.npy: label 2 of record 2 is not one of the model's 2 classes"));
  EXPECT_THAT(ErrorOf(Files("x_uint8.npy", "x_uint8.npy")),
              HasSubstr("the label of record 0 is 6 numbers of uint8, expected one whole number"));
  EXPECT_THAT(ErrorOf({.archive = GoldenPath("packed.npz"), .images = "x_trian", .labels = "y_train"}),
              HasSubstr("packed.npz has no array \"x_trian\"; it has x_train.npy, y_train.npy"));
  EXPECT_THAT(ErrorOf({.archive = GoldenPath("x_uint8.npy"), .images = "x", .labels = "y"}), HasSubstr("x_uint8.npy is not an .npz file"));
}

TEST(NumpyDataset, AnotherTypeIsRefusedWithWhatHelpsThere) {
  const std::string file = ::testing::TempDir() + "numpy_type.npy";
  const auto error = [&](const std::string& type) {
    const std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (6,), }\n";
    EXPECT_TRUE(WriteFileDurably(file, std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header).ok());
    return ErrorOf({.images = GoldenPath("x_uint8.npy"), .labels = file});
  };
  EXPECT_THAT(error("<f2"), HasSubstr("save it as array.astype('<f4')"));
  EXPECT_THAT(error("|b1"), HasSubstr("save it as array.astype('<i8')"));
  EXPECT_THAT(error("<U5"), HasSubstr("texts become numbers by numpy.unique(array, return_inverse=True)[1]"));
  EXPECT_THAT(error("|O"), HasSubstr("elements of type '|O', expected one of |u1, <i4, <i8, <f4, <f8; save it as an array of numbers"));
}

TEST(NumpyDataset, DamagedFilesAreNamed) {
  const std::string folder = ::testing::TempDir() + "numpy_damaged";
  std::filesystem::create_directories(folder);
  const std::string good = *ReadFile(GoldenPath("x_float32.npy"));
  const auto error = [&](const std::string& bytes, bool in_memory = true) {
    EXPECT_TRUE(WriteFileDurably(folder + "/x.npy", bytes).ok());
    return ErrorOf({.images = folder + "/x.npy", .labels = GoldenPath("y_int64.npy"), .in_memory = in_memory});
  };
  EXPECT_THAT(error(good.substr(0, 50)), HasSubstr("x.npy is cut off inside its header"));
  EXPECT_THAT(error(good.substr(0, good.size() - 3)),
              HasSubstr("is cut off: its header promises [6, 2, 3] of float32 (144 bytes), but 141 bytes follow it"));
  EXPECT_THAT(error(good + "x"), HasSubstr("goes on after the 144 bytes"));
  EXPECT_THAT(error(good + "x", /*in_memory=*/false), HasSubstr("has 273 bytes, expected 272"));
  std::string packed = *ReadFile(GoldenPath("stored.npz"));
  packed[200] = static_cast<char>(packed[200] ^ 1);  // within the pixels
  ASSERT_TRUE(WriteFileDurably(folder + "/x.npz", packed).ok());
  EXPECT_THAT(ErrorOf({.archive = folder + "/x.npz", .images = "x_train", .labels = "y_train"}), HasSubstr("x_train in"));
}

TEST(Npy, HeadersThatAreNoDictionaryAreRefused) {
  const auto error = [](std::string dictionary) {
    dictionary += '\n';
    std::string bytes = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dictionary.size()) + '\0' + dictionary;
    const auto header = ReadNpyHeader(*MemorySource(bytes), "f.npy");
    EXPECT_FALSE(header.ok()) << dictionary;
    return std::string(header.status().message());
  };
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False, 'shape': ()}"), HasSubstr("f.npy holds a single number"));
  for (const char* dictionary :
       {"{'descr': '<f4', 'fortran_order': False}", "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3, 4, 5, 6, 7, 8)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9000000000, 9000000000)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9000000000, 9000000000)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "{'descr: '<f4'", "", "{'shape': (1 2)}"}) {
    EXPECT_THAT(error(dictionary), HasSubstr("expected a dictionary such as")) << dictionary;
  }
}

}  // namespace
}  // namespace trainyard::engine
