#include "trainer/serve/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "trainer/picture/png.h"
#include "trainer/serve/tensor_data.h"
#include "trainer/serve/test_model.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

InputTensor Tensor(const std::string& name, const std::string& datatype, std::vector<int64_t> shape, decltype(InputTensor::data) data) {
  return {.field = "inputs[0]", .name = name, .datatype = datatype, .shape = std::move(shape), .data = std::move(data)};
}

std::vector<float> Floats(const ServedExamples& examples) {
  EXPECT_EQ(examples.dtype, DType::kF32);
  std::vector<float> floats(examples.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), examples.bytes.data(), examples.bytes.size());
  return floats;
}

class SignatureTest : public ::testing::Test {
 protected:
  const Signature& Of(const std::string& model) {
    auto loaded = LoadModel(SaveModel(EmptyFolder(), 1, 1, model));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    model_ = *std::move(loaded);
    return model_->signature();
  }
  std::shared_ptr<ServedModel> model_;
};

TEST_F(SignatureTest, RawElementsOfEveryTypeAreNumbers) {
  const Signature& signature = Of(kSumOfThree);
  const auto raw = [&](const std::string& type, const auto& numbers) {
    const std::vector tensors = {
        Tensor("input", type, {1, 3}, RawElements{std::string(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers))})};
    const auto examples = signature.ExamplesOf(tensors);
    EXPECT_TRUE(examples.ok()) << examples.status();
    return *examples;
  };
  EXPECT_THAT(Floats(raw("FP32", std::array<float, 3>{1, 2.5, -3})), ElementsAre(1, 2.5, -3));
  EXPECT_THAT(Floats(raw("FP64", std::array<double, 3>{1, 2.5, -3})), ElementsAre(1, 2.5, -3));
  EXPECT_THAT(Floats(raw("INT32", std::array<int32_t, 3>{1, 2, -3})), ElementsAre(1, 2, -3));
  EXPECT_THAT(Floats(raw("INT64", std::array<int64_t, 3>{1, 2, -3})), ElementsAre(1, 2, -3));
  EXPECT_EQ(raw("UINT8", std::array<uint8_t, 3>{1, 2, 255}).bytes.back(), std::byte{255});
}

TEST_F(SignatureTest, RawElementsThatDoNotFitAreRefused) {
  const Signature& signature = Of(kSumOfThree);
  const auto error = [&](const std::string& type, const std::string& bytes) {
    const std::vector tensors = {Tensor("input", type, {1, 3}, RawElements{bytes})};
    return std::string(signature.ExamplesOf(tensors).status().message());
  };
  EXPECT_EQ(error("FP32", std::string(11, '\0')), "inputs[0].data: found 11 bytes, expected 12: 3 of FP32");
  EXPECT_THAT(error("FP32", std::string(12, '\xff')), HasSubstr("not finite"));
  EXPECT_THAT(error("BOOL", std::string(3, '\0')), HasSubstr("inputs[0].datatype: found \"BOOL\""));
  const std::vector deep = {Tensor("input", "FP32", std::vector<int64_t>(9, 1), RawElements{""})};
  EXPECT_EQ(std::string(signature.ExamplesOf(deep).status().message()), "inputs[0].shape: found 9 extents, expected at most 8");
  EXPECT_THAT(std::string(signature.ExamplesOf({}).status().message()),
              HasSubstr("the input \"input\" is missing, expected FP32 of shape [-1, 3]"));
}

// A day that the training had is 1 at its place.
TEST_F(SignatureTest, WholeNumbersOfACategoryKeepAllTheirDigits) {
  const Signature& signature = Of(kTable);
  const auto cells = [&](const InputTensor& day) {
    const auto examples = signature.ExamplesOf(std::vector{day, Tensor("x", "FP64", {1}, std::vector<double>{2})});
    EXPECT_TRUE(examples.ok()) << examples.status();
    return Floats(*examples);
  };
  const auto raw = [&](const std::string& type, const auto& number) {
    return cells(Tensor("day", type, {1}, RawElements{std::string(reinterpret_cast<const char*>(&number), sizeof(number))}));
  };
  EXPECT_THAT(raw("INT64", int64_t{20231105}), ElementsAre(0, 1, 2));
  EXPECT_THAT(raw("INT32", int32_t{20231105}), ElementsAre(0, 1, 2));
  EXPECT_THAT(raw("FP64", double{20231105}), ElementsAre(0, 1, 2));
  EXPECT_THAT(cells(Tensor("day", "BYTES", {1}, std::vector<std::string>{"20231105"})), ElementsAre(0, 1, 2));
}

TEST_F(SignatureTest, ANumberOfJsonThatLosesDigitsIsNoCategory) {
  const Signature& signature = Of(kTable);
  const auto why = [&](double day, double x) {
    return std::string(
        signature.ExamplesOf(std::vector{Tensor("day", "", {1}, std::vector<double>{day}), Tensor("x", "", {1}, std::vector<double>{x})})
            .status()
            .message());
  };
  EXPECT_EQ(why(20231105, 1e20), "");
  EXPECT_EQ(why(0x1p53 - 1, 2), "");
  EXPECT_THAT(why(0x1p53, 2), HasSubstr("found a number of more than 53 bits at element 0, expected a category as a text in quotes"));
}

TEST(TensorData, AnInteger64IsATextOfAllItsDigits) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  const InputTensor tensor = Tensor("day", "INT64", {1}, RawElements{std::string(reinterpret_cast<const char*>(&most), sizeof(most))});
  EXPECT_THAT(*TextsOf(tensor, 1), ElementsAre("9223372036854775807"));
}

TEST_F(SignatureTest, PicturesAreDecoded) {
  const Signature& signature = Of(kTinyPicture);
  const std::vector<uint8_t> pixels = {1, 2, 3, 255};
  const std::vector whole = {
      Tensor("input", "BYTES", {1, 1}, std::vector<std::string>{*EncodePng({.height = 2, .width = 2, .channels = 1, .pixels = pixels})})};
  const auto examples = signature.ExamplesOf(whole);
  ASSERT_TRUE(examples.ok()) << examples.status();
  EXPECT_EQ(examples->dtype, DType::kU8);
  EXPECT_THAT(examples->bytes, ElementsAre(std::byte{1}, std::byte{2}, std::byte{3}, std::byte{255}));
  const std::vector broken = {Tensor("input", "BYTES", {1}, std::vector<std::string>{"no picture"})};
  EXPECT_THAT(std::string(signature.ExamplesOf(broken).status().message()), HasSubstr("inputs[0].data: picture 0: "));
  // Each of them is small as a file, and is refused for its size only after it was decoded.
  const std::vector<uint8_t> black(size_t{1} << 22);
  const std::string large = *EncodePng({.height = 1 << 11, .width = 1 << 11, .channels = 1, .pixels = black});
  const std::vector bombs = {Tensor("input", "BYTES", {1}, std::vector<std::string>{large})};
  EXPECT_THAT(std::string(signature.ExamplesOf(bombs).status().message()), HasSubstr("picture 0"));
  const std::vector cut = {Tensor("input", "BYTES", {1}, RawElements{std::string("\5\0\0\0abc", 7)})};
  EXPECT_THAT(std::string(signature.ExamplesOf(cut).status().message()), HasSubstr("bytes that end within a text"));
}

}  // namespace
}  // namespace trainyard::engine
