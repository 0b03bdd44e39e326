// Texts and sequences over HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/predict/load_text.h"
#include "trainer/predict/text_examples.h"
#include "trainer/serve/http_api.h"
#include "trainer/serve/test_model.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class SequenceApiTest : public ::testing::Test {
 protected:
  void Serve(const std::string& model, int64_t step = 7) {
    SaveModel(dir_, step, 1, model);
    const absl::Status status = watch_.Poll();
    ASSERT_TRUE(status.ok()) << status;
  }
  HttpAnswer Post(const std::string& path, const json& body) {
    return api_.Answer({.method = "POST", .path = path, .body = body.dump(), .json_bytes = ""});
  }
  // The predictions of TensorFlow's rows.
  json Rows(const json& instances) {
    const HttpAnswer answer = Post("/v1/models/m:predict", {{"instances", instances}});
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body).value("predictions", json());
  }
  static json V2Body(const json& input, const json& parameters) {
    json named = input;
    named["name"] = "input";
    return {{"parameters", parameters}, {"inputs", json::array({named})}};
  }
  // The numbers that a v2 request gets.
  json Infer(const json& input, const json& parameters = json::object()) {
    const HttpAnswer answer = Post("/v2/models/m/infer", V2Body(input, parameters));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? json::parse(answer.body)["outputs"][0]["data"] : json();
  }
  std::string Refusal(int status, const json& input, const json& parameters = json::object()) {
    const HttpAnswer answer = Post("/v2/models/m/infer", V2Body(input, parameters));
    EXPECT_EQ(answer.status, status) << answer.body;
    return json::parse(answer.body).value("error", "");
  }
  std::string WrongRows(const json& instances) {
    const HttpAnswer answer = Post("/v1/models/m:predict", {{"instances", instances}});
    EXPECT_EQ(answer.status, 400) << answer.body;
    return json::parse(answer.body).value("error", "");
  }
  static json Text(const std::string& text) { return {{"datatype", "BYTES"}, {"shape", json::array({1})}, {"data", json::array({text})}}; }
  static json Steps(std::vector<float> numbers) { return {{"datatype", "FP32"}, {"shape", {1, 2, 1}}, {"data", numbers}}; }

  const std::string dir_ = EmptyFolder();
  ServeMetrics metrics_;
  VersionWatch watch_{dir_, /*best=*/false, [](const std::string& path) { return LoadModel(path); }};
  ModelService service_{{.name = "m", .sequences = {.most = 2}}, watch_, metrics_};
  HttpApi api_{service_};
};

TEST_F(SequenceApiTest, TextsGetTheNumbersOfPredict) {
  Serve(kText);
  TrainedModel model = *LoadTrainedModel({.path = dir_, .job = "", .overrides = {}});
  ASSERT_TRUE(LoadText(model).ok());
  const auto backend = MakeReferenceBackend();
  const auto predictor = *Predictor::Create(model, *backend);
  std::vector<std::vector<int32_t>> texts;
  for (const std::string text : {"ab", "a", "ba\nab?"}) texts.push_back(*TokensOfText(*model.vocabulary, text, "it"));
  const std::vector<float> expected = *PredictTexts(*predictor, texts);
  EXPECT_EQ(Infer({{"datatype", "BYTES"}, {"shape", json::array({3})}, {"data", {"ab", "a", "ba\nab?"}}}), json(expected));
  const json rows = Rows(json::array({"ab", "a", "ba\nab?"}));
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], json(std::vector(expected.begin() + 4 * i, expected.begin() + 4 * i + 4)));
  EXPECT_EQ(Rows(json::array({json(texts[0])})), Rows(json::array({"ab"})));
  EXPECT_EQ(Infer({{"datatype", "INT64"}, {"shape", {1, 2}}, {"data", texts[0]}}), Infer(Text("ab")));
  EXPECT_NE(Rows(json::array({"ab"})), Rows(json::array({"bb"})));
}

TEST_F(SequenceApiTest, TheSignatureOfAModelOfTextIsATextAndItsTokens) {
  Serve(kText);
  const json model = json::parse(api_.Answer({.method = "GET", .path = "/v2/models/m", .body = "", .json_bytes = ""}).body);
  EXPECT_EQ(model["inputs"], json::parse(R"([{"name": "input", "datatype": "BYTES", "shape": [-1]}])"));
  EXPECT_EQ(model["outputs"], json::parse(R"([{"name": "probabilities", "datatype": "FP32", "shape": [-1, 4]}])"));
  const json metadata = json::parse(api_.Answer({.method = "GET", .path = "/v1/models/m/metadata", .body = "", .json_bytes = ""}).body);
  EXPECT_EQ(metadata["metadata"]["classes"], json({"a", "\n", "b", "<unk>"}));
}

TEST_F(SequenceApiTest, WrongTextsAreRefusedByField) {
  Serve(kText);
  EXPECT_EQ(WrongRows(json::array({""})), "instances: text 0: found 0 tokens, expected 1 to 65536");
  EXPECT_EQ(WrongRows(json::array({"a", std::string(65537, 'a')})), "instances: text 1: found 65537 tokens, expected 1 to 65536");
  EXPECT_THAT(WrongRows(json::parse(R"([{"b64": "/w=="}])")), HasSubstr("instances: text 0 is not UTF-8: found the byte 0xff at byte 0"));
  EXPECT_EQ(WrongRows(json::parse("[[0, 4]]")), "instances: found 4, expected token ids: whole numbers from 0 to 3");
  EXPECT_EQ(WrongRows(json::parse("[[0.5]]")), "instances: found 0.5, expected token ids: whole numbers from 0 to 3");
  EXPECT_EQ(WrongRows(json::parse("[[-1]]")), "instances: found -1, expected token ids: whole numbers from 0 to 3");
  EXPECT_THAT(WrongRows(json::parse("[1, 2]")),
              HasSubstr("instances: found [2], expected a list of texts [-1], or of token ids [-1, tokens]"));
  EXPECT_THAT(WrongRows(json::parse("[[]]")), HasSubstr("instances: found [1, 0], expected"));
  EXPECT_THAT(Refusal(400, {{"datatype", "FP32"}, {"shape", {1, 1}}, {"data", json::array({1})}}),
              HasSubstr("expected BYTES for texts, INT32 or INT64"));
  EXPECT_THAT(Refusal(400, {{"datatype", "BYTES"}, {"shape", {1, 2}}, {"data", {"a", "b"}}}), HasSubstr("inputs[0].shape: found [1, 2]"));
}

TEST_F(SequenceApiTest, ATextTokenByTokenGetsTheNumbersOfTheWholeText) {
  Serve(kText);
  const std::string text = "ab\nba";
  for (size_t i = 0; i < text.size(); ++i) {
    const json said = Infer(Text(text.substr(i, 1)), {{"sequence_id", "s"}, {"sequence_start", i == 0}});
    EXPECT_EQ(said, Infer(Text(text.substr(0, i + 1)))) << i;
  }
  EXPECT_EQ(Infer(Text("ab"), {{"sequence_id", "s"}, {"sequence_end", true}}), Infer(Text("ab\nbaab")));
}

TEST_F(SequenceApiTest, SequencesDoNotMix) {
  Serve(kRunningSum);
  EXPECT_EQ(Infer(Steps({1, 2}), {{"sequence_id", 1}, {"sequence_start", true}}), json::array({3}));
  EXPECT_EQ(Infer(Steps({10, 20}), {{"sequence_id", 2}, {"sequence_start", true}}), json::array({30}));
  EXPECT_EQ(Infer(Steps({3, 4}), {{"sequence_id", 1}}), json::array({10}));
  EXPECT_EQ(Infer(Steps({100, 0})), json::array({100}));
  EXPECT_EQ(Infer(Steps({30, 40}), {{"sequence_id", "2"}}), json::array({100}));
  EXPECT_EQ(Infer(Steps({5, 5}), {{"sequence_id", 1}, {"sequence_end", true}}), json::array({20}));
  EXPECT_EQ(Infer(Steps({1, 1}), {{"sequence_id", 2}, {"sequence_start", true}}), json::array({2}));
}

TEST_F(SequenceApiTest, WrongSequencesAreRefusedAndChangeNothing) {
  Serve(kRunningSum);
  EXPECT_THAT(Refusal(409, Steps({1, 2}), {{"sequence_id", 1}}), HasSubstr("parameters.sequence_id: found \"1\", which has not begun"));
  EXPECT_EQ(Infer(Steps({1, 2}), {{"sequence_id", 1}, {"sequence_start", true}}), json::array({3}));
  for (const json& id : {json(0), json(-1), json(1.5), json(""), json(std::string(129, 'a')), json(true), json::array({1}), json(1e300)}) {
    EXPECT_THAT(Refusal(400, Steps({1, 2}), {{"sequence_id", id}, {"sequence_start", true}}),
                HasSubstr("expected a whole number from 1 to 2^53, or a text of 1 to 128 bytes"));
  }
  EXPECT_THAT(Refusal(400, Steps({1, 2}), {{"sequence_end", true}}), HasSubstr("parameters.sequence_id: missing"));
  EXPECT_THAT(Refusal(400, Steps({1, 2}), {{"sequence_id", 1}, {"sequence_start", 1}}), HasSubstr("expected true or false"));
  EXPECT_THAT(Refusal(400, {{"datatype", "FP32"}, {"shape", {2, 2, 1}}, {"data", {1, 2, 3, 4}}}, {{"sequence_id", 1}}),
              HasSubstr("inputs: found 2 examples, expected one in a request with a sequence_id"));
  EXPECT_THAT(Refusal(400, {{"datatype", "FP32"}, {"shape", {1, 3}}, {"data", {1, 2, 3}}}, {{"sequence_id", 1}, {"sequence_start", true}}),
              HasSubstr("inputs[0].shape"));
  EXPECT_EQ(Infer(Steps({3, 4}), {{"sequence_id", 1}}), json::array({10}));
  EXPECT_EQ(Infer(Steps({0, 0}), {{"sequence_id", 2}, {"sequence_start", true}}), json::array({0}));
  EXPECT_THAT(Refusal(429, Steps({0, 0}), {{"sequence_id", 3}, {"sequence_start", true}}), HasSubstr("2 sequences live, at most 2 may"));
  EXPECT_THAT(api_.Answer({.method = "GET", .path = "/metrics", .body = "", .json_bytes = ""}).body,
              HasSubstr("trainyard_serve_sequences 2"));
  const HttpAnswer tensorflow = Post("/v1/models/m:predict", {{"instances", json::parse("[[1, 2]]")}, {"sequence_id", 1}});
  EXPECT_EQ(tensorflow.status, 400);
  EXPECT_THAT(tensorflow.body, HasSubstr("TensorFlow's JSON has no sequences"));
}

TEST_F(SequenceApiTest, AModelWithoutStateHasNoSequences) {
  Serve(kSumOfThree);
  EXPECT_THAT(Refusal(400, {{"datatype", "FP32"}, {"shape", {1, 3}}, {"data", {1, 2, 3}}}, {{"sequence_id", 1}, {"sequence_start", true}}),
              HasSubstr("parameters.sequence_id: found one, expected none"));
}

TEST_F(SequenceApiTest, ANewerVersionEndsASequenceWhichCanBeginAgain) {
  Serve(kRunningSum);
  EXPECT_EQ(Infer(Steps({1, 2}), {{"sequence_id", 1}, {"sequence_start", true}}), json::array({3}));
  Serve(kRunningSum, 8);
  EXPECT_THAT(Refusal(409, Steps({3, 4}), {{"sequence_id", 1}}),
              HasSubstr("began with version 7 of the model and ended with it: version 8"));
  EXPECT_EQ(Infer(Steps({3, 4}), {{"sequence_id", 1}, {"sequence_start", true}}), json::array({7}));
}

}  // namespace
}  // namespace trainyard::engine
