#include "trainer/predict/example_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "trainer/data/formats/idx_maker.h"
#include "trainer/predict/json_examples.h"
#include "trainer/predict/open_examples.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The results of a reader until its end: examples, or the errors in their places.
struct All {
  std::vector<Example> examples;
  std::vector<std::string> errors;
};

All ReadAll(ExampleReader& reader) {
  All all;
  Example example;
  while (true) {
    const absl::StatusOr<bool> found = reader.Next(example);
    if (!found.ok()) {
      all.errors.emplace_back(found.status().message());
    } else if (*found) {
      all.examples.push_back(example);
    } else {
      return all;
    }
  }
}

std::vector<float> Floats(const Example& example) {
  EXPECT_EQ(example.dtype, DType::kF32);
  std::vector<float> floats(example.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), example.bytes.data(), example.bytes.size());
  return floats;
}

All ReadLines(const std::string& text, const Shape& shape) {
  std::istringstream lines(text);
  return ReadAll(*ReadJsonLines(lines, {.shape = shape}));
}

TEST(IsOneExample, TakesTheModelsShapeItWithoutOnesAndFlat) {
  EXPECT_TRUE(IsOneExample(Shape({28, 28, 1}), Shape({28, 28, 1})));
  EXPECT_TRUE(IsOneExample(Shape({28, 28}), Shape({28, 28, 1})));
  EXPECT_TRUE(IsOneExample(Shape({784}), Shape({28, 28, 1})));
  EXPECT_TRUE(IsOneExample(Shape(), Shape({1})));
  EXPECT_FALSE(IsOneExample(Shape({3, 32, 32}), Shape({32, 32, 3})));
  EXPECT_FALSE(IsOneExample(Shape({28, 29}), Shape({28, 28, 1})));
}

TEST(JsonLines, EachLineIsAnExample) {
  const All all = ReadLines("[1, -2.5]\n\n [3,4e1] \r\n", Shape({2}));
  EXPECT_THAT(all.errors, IsEmpty());
  ASSERT_THAT(all.examples, SizeIs(2));
  EXPECT_THAT(Floats(all.examples[0]), ElementsAre(1, -2.5F));
  EXPECT_THAT(Floats(all.examples[1]), ElementsAre(3, 40));
  EXPECT_EQ(all.examples[1].index, 2);
}

TEST(JsonLines, NestedArraysHaveTheModelsShape) {
  EXPECT_THAT(ReadLines("[[[1],[2]],[[3],[4]]]", Shape({2, 2, 1})).examples, SizeIs(1));
  EXPECT_THAT(ReadLines("[1,2,3,4]", Shape({2, 2, 1})).examples, SizeIs(1));
  EXPECT_THAT(ReadLines("[[1,2,3,4]]", Shape({2, 2, 1})).examples, SizeIs(1));
  EXPECT_THAT(ReadLines("[[1],[2]]", Shape({2, 2})).errors,
              ElementsAre(HasSubstr("found an array of [2, 1], expected an array of numbers")));
}

TEST(JsonLines, AWrongLineIsNamedAndTheNextOnesAreRead) {
  const Shape shape({2});
  for (const char* wrong : {"[1]", "[1,2,3]", "[1,\"a\"]", "{\"x\": 1}", "[1,null]", "7", "[1,[2]]", "[[1],2]", "[[1,2],[3]]", "[1,2",
                            "[1e400,2]", "[1e39,2]", "[NaN,1]", "not json", "[]", "[[],[]]", "[1,2] 3", "\"\x01\"", "[[[[[[[[[[[[[[[[1"}) {
    const All all = ReadLines(std::string(wrong) + "\n[5,6]\n", shape);
    EXPECT_THAT(all.errors, ElementsAre(HasSubstr("line 1: found "))) << wrong;
    EXPECT_THAT(all.examples, SizeIs(1)) << wrong;
  }
}

TEST(JsonLines, AVeryLongLineIsPassedOver) {
  const All all = ReadLines("[" + std::string(1 << 20, ' ') + "1,2]\n[5,6]", Shape({2}));
  EXPECT_THAT(all.errors, ElementsAre(HasSubstr("line 1: found more than ")));
  EXPECT_THAT(all.examples, SizeIs(1));
}

class Files : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = ::testing::TempDir() + "/example_reader_" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string Npy(const std::string& descr, const std::string& shape, const std::string& data) {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(117, ' ');
    header += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
  }
  static std::string ErrorOf(const std::string& path, const Shape& shape) {
    const auto reader = OpenExamples(path, {.shape = shape});
    return reader.ok() ? "" : std::string(reader.status().message());
  }
};

TEST_F(Files, AnArrayOfBytesIsOneExampleOrABatch) {
  const Shape shape({2, 1});
  auto one = OpenExamples(Write("one", Npy("|u1", "(2,)", "\x01\x02")), {.shape = shape});
  ASSERT_TRUE(one.ok()) << one.status();
  const All single = ReadAll(**one);
  ASSERT_THAT(single.examples, SizeIs(1));
  EXPECT_EQ(single.examples[0].dtype, DType::kU8);
  EXPECT_EQ(single.examples[0].index, -1);
  auto many = OpenExamples(Write("many", Npy("|u1", "(3, 2)", "abcdef")), {.shape = shape});
  ASSERT_TRUE(many.ok()) << many.status();
  const All batch = ReadAll(**many);
  ASSERT_THAT(batch.examples, SizeIs(3));
  EXPECT_EQ(batch.examples[2].index, 2);
  EXPECT_THAT(batch.examples[2].bytes, ElementsAre(std::byte{'e'}, std::byte{'f'}));
}

TEST_F(Files, AnArrayThatIsCutOffGivesWhatIsWhole) {
  auto reader = OpenExamples(Write("cut", Npy("|u1", "(3, 2)", "abc")), {.shape = Shape({2})});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const All all = ReadAll(**reader);
  EXPECT_THAT(all.examples, SizeIs(1));
  EXPECT_THAT(all.errors, ElementsAre(HasSubstr("the file is cut off: it ends within example 1 of 3")));
}

TEST_F(Files, AnArrayThatGoesOnBehindItsExamplesIsAnError) {
  for (const std::string& path :
       {Write("longer", Npy("|u1", "(2, 2)", "abcdX")), Write("longer_idx", IdxMaker().Axes({2, 2}).Data("abcdX").Make())}) {
    auto reader = OpenExamples(path, {.shape = Shape({2})});
    ASSERT_TRUE(reader.ok()) << reader.status();
    const All all = ReadAll(**reader);
    EXPECT_THAT(all.examples, SizeIs(2));
    EXPECT_THAT(all.errors, ElementsAre(HasSubstr("the file goes on after its 2 examples; its header or its end is wrong")));
  }
}

TEST_F(Files, AnExampleWithANumberThatIsNotFiniteIsNamedAndTheNextOnesAreRead) {
  const std::array<float, 6> numbers = {1, 2, 3, NAN, 5, 6};
  const std::string data(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
  auto reader = OpenExamples(Write("nan", Npy("<f4", "(3, 2)", data)), {.shape = Shape({2})});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const All all = ReadAll(**reader);
  EXPECT_THAT(all.examples, SizeIs(2));
  EXPECT_THAT(all.errors, ElementsAre("example 1: found nan at element 1, expected finite numbers that float32 holds"));
}

TEST_F(Files, ADifferentShapeIsToldWithWhatIsExpected) {
  const std::string path = Write("chw", Npy("|u1", "(3, 4, 4)", std::string(48, 'x')));
  EXPECT_THAT(ErrorOf(path, Shape({4, 4, 3})), HasSubstr("the array is [3, 4, 4], the model takes [4, 4, 3], or a batch of those"));
  EXPECT_THAT(ErrorOf(Write("none", Npy("|u1", "(0, 2)", "")), Shape({2})), HasSubstr("it holds no example"));
}

TEST_F(Files, AnIdxFileIsRead) {
  auto reader = OpenExamples(Write("idx", IdxMaker().Axes({2, 1, 2}).Data("abcd").Make()), {.shape = Shape({1, 2, 1})});
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(ReadAll(**reader).examples, SizeIs(2));
}

TEST_F(Files, WhatIsNoExampleIsTold) {
  const Shape shape({2});
  EXPECT_THAT(ErrorOf(Write("empty", ""), shape), HasSubstr("the file is empty, expected a PNG or JPEG picture"));
  EXPECT_THAT(ErrorOf(Write("text", "hello"), shape),
              HasSubstr("the file begins with the bytes 68 65 6c 6c 6f, expected a PNG or JPEG picture"));
  EXPECT_THAT(ErrorOf("/nowhere/x.png", shape), HasSubstr("cannot open /nowhere/x.png: No such file or directory"));
  EXPECT_THAT(ErrorOf("/nowhere/x.jsonl", shape), HasSubstr("cannot open /nowhere/x.jsonl"));
}

}  // namespace
}  // namespace trainyard::engine
