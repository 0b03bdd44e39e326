#include "trainer/tensor/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file from its header's text and its data, whatever they are.
std::string FileOf(std::string_view header, std::string_view data) {
  uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header;
  bytes += data;
  return bytes;
}

std::string ErrorOf(std::string_view header, std::string_view data) {
  auto file = Safetensors::Parse(FileOf(header, data), "x.safetensors");
  EXPECT_FALSE(file.ok()) << header;
  return file.ok() ? "" : std::string(file.status().message());
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  std::vector<float> kernel = {1, 2, 3, 4, 5, 6};
  std::vector<uint8_t> pixels = {7, 8, 9};
  std::vector<int64_t> steps = {-1};
  std::vector<NamedTensor> tensors = {{"pixels", {DType::kU8, {3}, pixels.data()}},
                                      {"d/kernel", {DType::kF32, {2, 3}, kernel.data()}},
                                      {"step", {DType::kI64, {}, steps.data()}}};
  std::string path = ::testing::TempDir() + "round_trip.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, tensors, {{"step", "12"}}).ok());
  auto file = Safetensors::Read(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata().at("step"), "12");
  ASSERT_EQ(file->tensors().size(), 3);
  EXPECT_EQ(file->tensors()[0].name, "d/kernel");
  EXPECT_EQ(file->Find("d/kernel")->shape, Shape({2, 3}));
  EXPECT_THAT(file->Find("d/kernel")->values<const float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(file->Find("pixels")->values<const uint8_t>(), ElementsAre(7, 8, 9));
  EXPECT_THAT(file->Find("step")->values<const int64_t>(), ElementsAre(-1));
}

TEST(Safetensors, AMissingTensorIsNamedTogetherWithWhatThereIs) {
  auto file = Safetensors::Parse(FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"), "x.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Find("b"), nullptr);
  EXPECT_THAT(std::string(file->Get("b").status().message()), HasSubstr("x.safetensors has no tensor 'b'; it holds a"));
}

TEST(Safetensors, ATensorAtAnOddAddressCanBeRead) {
  auto file = Safetensors::Parse(
      FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
             std::string("x\0\0\x80\x3f", 5)),
      "x");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->Find("b")->values<const float>(), ElementsAre(1.0F));
}

TEST(Safetensors, TensorsStayValidWhenTheFileObjectMoves) {
  auto file = Safetensors::Parse(FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"), "x");
  ASSERT_TRUE(file.ok());
  Safetensors moved = *std::move(file);
  EXPECT_THAT(moved.Find("a")->values<const uint8_t>(), ElementsAre('x'));
}

TEST(Safetensors, AHeaderLongerThanTheFileIsRefused) {
  std::string bytes = FileOf("{}", "");
  bytes[0] = 9;
  EXPECT_THAT(std::string(Safetensors::Parse(bytes, "x").status().message()), HasSubstr("header is said to have 9 bytes, the file has 2"));
  bytes[7] = 1;
  EXPECT_THAT(std::string(Safetensors::Parse(bytes, "x").status().message()), HasSubstr("at most 16777216"));
  EXPECT_THAT(std::string(Safetensors::Parse("short", "x").status().message()), HasSubstr("too few"));
}

TEST(Safetensors, BadHeadersAreRefusedByTensorName) {
  EXPECT_THAT(ErrorOf("{", ""), HasSubstr("its header: not JSON: parse error at line 1, column 2"));
  EXPECT_THAT(ErrorOf("[]", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf(R"({"a":1})", ""), HasSubstr("tensor 'a' is not described"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})", "xx"),
              HasSubstr("tensor 'a': unknown element type 'F16'"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "x"), HasSubstr("tensor 'a' has an extent"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", "x"), HasSubstr("tensor 'a' has an extent"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", "x"), HasSubstr("9 axes"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", ""), HasSubstr("more elements"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[1]}})", "x"), HasSubstr("no 'data_offsets'"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{"a":1}})", ""), HasSubstr("'__metadata__' field 'a'"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", ""),
              HasSubstr("its header: field \"a\" is given twice"));
}

// To copy or compare so deep a value would end the stack.
TEST(Safetensors, AHeaderOfAMillionLevelsIsRefused) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  for (const char* const field : {"dtype", "shape", "data_offsets"}) {
    EXPECT_THAT(ErrorOf(std::string(R"({"a":{")") + field + R"(":)" + deep + "}}", ""),
                HasSubstr("its header: found more than 64 levels of lists and objects"));
  }
}

TEST(Safetensors, OffsetsThatLieAreRefused) {
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "x"), HasSubstr("bytes [0, 2) of 1 bytes of data"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,1]}})", "xx"), HasSubstr("[2, 1)"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,3]}})", "xxx"), HasSubstr("needs 4 bytes, its offsets give 3"));
  EXPECT_THAT(
      ErrorOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "xxx"),
      HasSubstr("tensor 'b' overlaps"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xx"), HasSubstr("[0, 1) before tensor 'a'"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "xx"), HasSubstr("1 bytes after the last"));
}

TEST(Safetensors, TwoTensorsOfOneNameAreNotWritten) {
  float value = 0;
  std::vector<NamedTensor> tensors = {{"a", {DType::kF32, {1}, &value}}, {"a", {DType::kF32, {1}, &value}}};
  EXPECT_THAT(std::string(SerializeSafetensors(tensors).status().message()), HasSubstr("tensor 'a'"));
}

}  // namespace
}  // namespace trainyard::engine
