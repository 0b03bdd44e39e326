#include "trainer/serve/grpc_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "trainer/serve/tensor_data.h"
#include "trainer/serve/test_model.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GrpcMessagesTest : public ::testing::Test {
 protected:
  void SetUp() override { Use(kSumOfThree); }
  void Use(const std::string& model) {
    auto loaded = LoadModel(SaveModel(EmptyFolder(), 7, 1, model));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    model_ = *std::move(loaded);
  }
  static inference::ModelInferRequest Message(const std::string& datatype = "FP32") {
    inference::ModelInferRequest message;
    message.set_id("a");
    inference::InferTensor& input = *message.add_inputs();
    input.set_name("input");
    input.set_datatype(datatype);
    input.add_shape(1);
    input.add_shape(3);
    return message;
  }
  std::vector<float> Floats(inference::ModelInferRequest message) {
    const auto request = RequestOf(message, model_->signature());
    EXPECT_TRUE(request.ok()) << request.status();
    const auto examples = model_->signature().ExamplesOf(request->inputs);
    EXPECT_TRUE(examples.ok()) << examples.status();
    std::vector<float> floats(examples->bytes.size() / sizeof(float));
    std::memcpy(floats.data(), examples->bytes.data(), examples->bytes.size());
    return floats;
  }
  std::string Refusal(inference::ModelInferRequest message) {
    const auto request = RequestOf(message, model_->signature());
    EXPECT_TRUE(absl::IsInvalidArgument(request.status())) << request.status();
    return std::string(request.status().message());
  }
  std::shared_ptr<ServedModel> model_;
};

TEST_F(GrpcMessagesTest, TensorsComeAsBytesOrInTheListOfTheirType) {
  inference::ModelInferRequest raw = Message();
  const std::vector<float> numbers = {1, 2.5, -3};
  raw.add_raw_input_contents(numbers.data(), 12);
  EXPECT_EQ(Floats(raw), numbers);
  inference::ModelInferRequest floats = Message();
  for (const float number : numbers) floats.mutable_inputs(0)->mutable_contents()->add_fp32_contents(number);
  EXPECT_EQ(Floats(floats), numbers);
  inference::ModelInferRequest doubles = Message("FP64");
  for (const float number : numbers) doubles.mutable_inputs(0)->mutable_contents()->add_fp64_contents(number);
  EXPECT_EQ(Floats(doubles), numbers);
  inference::ModelInferRequest whole = Message("INT64");
  for (const int number : {4, 5, 6}) whole.mutable_inputs(0)->mutable_contents()->add_int64_contents(number);
  EXPECT_THAT(Floats(whole), ElementsAre(4, 5, 6));
}

TEST_F(GrpcMessagesTest, AnInteger64KeepsAllItsDigits) {
  inference::ModelInferRequest message = Message("INT64");
  message.mutable_inputs(0)->mutable_contents()->add_int64_contents(std::numeric_limits<int64_t>::max());
  const auto request = RequestOf(message, model_->signature());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(*TextsOf(request->inputs[0], 1), ElementsAre("9223372036854775807"));
}

TEST_F(GrpcMessagesTest, WrongMessagesAreRefusedByField) {
  inference::ModelInferRequest message = Message();
  message.add_raw_input_contents("");
  message.add_raw_input_contents("");
  EXPECT_EQ(Refusal(message), "raw_input_contents: found 2, expected one for each of the 1 inputs, or none");
  message = Message();
  message.add_raw_input_contents("");
  message.mutable_inputs(0)->mutable_contents();
  EXPECT_EQ(Refusal(message), "inputs[0].contents: found it beside raw_input_contents, expected one of them");
  message = Message();
  message.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  EXPECT_EQ(Refusal(message), "inputs[0].contents: found a list of another type than \"FP32\"");
  message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(Refusal(message), "inputs[0].contents: found several lists, expected that of the datatype");
  message = Message("");
  EXPECT_THAT(Refusal(message), HasSubstr("inputs[0].datatype: missing"));
  message = Message();
  message.add_outputs()->set_name("other");
  EXPECT_EQ(Refusal(message), "outputs[0].name: found \"other\", expected \"prediction\"");
  message = Message();
  inference::Parameter& timeout = *message.add_parameters();
  timeout.set_key("timeout");
  timeout.mutable_value()->set_int64_param(-1);
  EXPECT_EQ(Refusal(message), "parameters.timeout: found int64_param -1, expected an int64_param of microseconds above 0");
  timeout.mutable_value()->set_string_param("x");
  EXPECT_EQ(Refusal(message), "parameters.timeout: found string_param \"x\", expected an int64_param of microseconds above 0");
  message = Message("BOOL");
  message.mutable_inputs(0)->mutable_contents()->add_bool_contents(true);
  EXPECT_EQ(Refusal(message), "inputs[0].datatype: found \"BOOL\", expected one of FP32, FP64, INT32, INT64, UINT8, BYTES");
}

TEST_F(GrpcMessagesTest, ASequenceIsNamedByANumberOrAText) {
  const auto named = [](const std::string& name, auto set) {
    inference::ModelInferRequest message = Message();
    inference::Parameter& parameter = *message.add_parameters();
    parameter.set_key(name);
    set(*parameter.mutable_value());
    return message;
  };
  inference::ModelInferRequest message = named("sequence_id", [](auto& value) { value.set_int64_param(7); });
  ASSERT_TRUE(RequestOf(message, model_->signature())->sequence.has_value());
  EXPECT_EQ(RequestOf(message, model_->signature())->sequence->id, "7");
  message = named("sequence_id", [](auto& value) { value.set_string_param("a"); });
  EXPECT_EQ(RequestOf(message, model_->signature())->sequence->id, "a");
  const auto wrong = [](const std::string& found) {
    return "parameters.sequence_id: found " + found + ", expected an int64_param above 0, or a string_param of 1 to 128 bytes";
  };
  message = named("sequence_id", [](auto& value) { value.set_int64_param(0); });
  EXPECT_EQ(Refusal(message), wrong("int64_param 0"));
  message = named("sequence_id", [](auto& value) { value.set_string_param(std::string(129, 'a')); });
  EXPECT_EQ(Refusal(message), wrong("string_param \"" + std::string(60, 'a') + "…\""));
  message = named("sequence_id", [](auto& value) { value.set_bool_param(true); });
  EXPECT_EQ(Refusal(message), wrong("bool_param true"));
  message = named("sequence_start", [](auto& value) { value.set_bool_param(true); });
  EXPECT_THAT(Refusal(message), HasSubstr("parameters.sequence_id: missing"));
  message = named("sequence_end", [](auto& value) { value.set_int64_param(1); });
  EXPECT_EQ(Refusal(message), "parameters.sequence_end: found int64_param 1, expected a bool_param");
}

TEST_F(GrpcMessagesTest, AnswersHaveTheirTensorAsBytes) {
  InferRequest request;
  request.id = "a";
  const inference::ModelInferResponse response =
      ResponseOf(request, {.version = 7, .examples = 2, .values = {1, 2}}, model_->signature(), "model");
  EXPECT_EQ(response.model_version(), "7");
  EXPECT_EQ(response.id(), "a");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(2, 1));
  EXPECT_EQ(response.raw_output_contents(0).size(), 8U);
  EXPECT_THAT(ModelMetadataOf(model_->signature(), "model", 7).inputs(0).shape(), ElementsAre(-1, 3));
}

TEST_F(GrpcMessagesTest, TheLikeliestClassesAreTextsWithTheirLengths) {
  Use(kTwoClasses);
  inference::ModelInferRequest message = Message();
  message.add_outputs()->set_name("probabilities");
  inference::Parameter& classes = *message.mutable_outputs(0)->add_parameters();
  classes.set_key("classification");
  classes.mutable_value()->set_int64_param(1);
  const auto request = RequestOf(message, model_->signature());
  ASSERT_TRUE(request.ok()) << request.status();
  const auto response = ResponseOf(*request, {.version = 7, .examples = 1, .values = {0.25, 0.75}}, model_->signature(), "model");
  EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
  EXPECT_EQ(response.raw_output_contents(0), std::string("\x08\0\0\0", 4) + "0.75:1:1");
}

}  // namespace
}  // namespace trainyard::engine
