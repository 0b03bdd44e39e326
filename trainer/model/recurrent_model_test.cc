// Models of sequences, from the job file to their graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelSpec Parse(const std::string& text, FieldErrors& errors) { return ParseModelSpec(nlohmann::json::parse(text), "model", errors); }

ModelSpec ParseGood(const std::string& text) {
  FieldErrors errors;
  ModelSpec spec = Parse(text, errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("model");
  return spec;
}

std::string ErrorOf(const std::string& layers, const std::string& input = "{\"shape\": [6], \"vocabulary\": 9}") {
  FieldErrors errors;
  Parse(R"({"input": )" + input + R"(, "layers": )" + layers + R"(, "loss": "softmaxCrossEntropy"})", errors);
  return std::string(errors.ToStatus("model").message());
}

std::vector<std::string> ParameterTexts(const ModelSpec& spec) {
  std::vector<std::string> texts;
  const std::vector<ParameterSpec> parameters = *ParameterSpecsOf(spec);
  for (const ParameterSpec& parameter : parameters) texts.push_back(parameter.name + parameter.shape.ToString());
  return texts;
}

TEST(RecurrentModelTest, PtbLstmHasTheNetworkOfTheStudy) {
  const ModelSpec spec = ParseGood(R"({"preset": "ptbLstm", "dropout": 0.5})");
  EXPECT_THAT(ParameterTexts(spec),
              ElementsAre("embedding/embeddings[10000, 200]", "lstm1/kernel[200, 800]", "lstm1/recurrent_kernel[200, 800]",
                          "lstm1/bias[800]", "lstm2/kernel[200, 800]", "lstm2/recurrent_kernel[200, 800]", "lstm2/bias[800]",
                          "dense/kernel[200, 10000]", "dense/bias[10000]"));
  const Graph graph = *BuildTrainingGraph(spec, 20);
  std::vector<std::string> states;
  for (const ParameterSpec& state : graph.states()) states.push_back(state.name + state.shape.ToString());
  EXPECT_THAT(states, ElementsAre("lstm1/h[20, 200]", "lstm1/c[20, 200]", "lstm2/h[20, 200]", "lstm2/c[20, 200]"));
  for (const Value& next : graph.next_states()) EXPECT_TRUE(next.valid());
  EXPECT_EQ(graph.node(graph.Find("labels")).outputs[0].shape, Shape({20, 30}));
  EXPECT_EQ(graph.node(graph.Find("input")).outputs[0].dtype, DType::kI32);
  EXPECT_EQ(*ClassCountOf(spec), 10000);
}

TEST(RecurrentModelTest, ParametersAreNamedAndShapedAsInKeras) {
  const ModelSpec spec = ParseGood(R"({"input": {"shape": [6, 3]}, "layers": [
    {"gru": {"units": 4, "returnSequences": true}},
    {"bidirectional": {"layer": {"simpleRnn": {"units": 5, "useBias": false}}}},
    {"dense": {"units": 2}}], "loss": "softmaxCrossEntropy"})");
  EXPECT_THAT(ParameterTexts(spec),
              ElementsAre("gru/kernel[3, 12]", "gru/recurrent_kernel[4, 12]", "gru/bias[2, 12]", "bidirectional/forward/kernel[4, 5]",
                          "bidirectional/forward/recurrent_kernel[5, 5]", "bidirectional/backward/kernel[4, 5]",
                          "bidirectional/backward/recurrent_kernel[5, 5]", "dense/kernel[10, 2]", "dense/bias[2]"));
}

TEST(RecurrentModelTest, ForgetGatesStartOpenAndRecurrentKernelsOrthogonal) {
  const ModelSpec spec = ParseGood(R"({"input": {"shape": [6, 3]}, "layers": [{"lstm": {"units": 3}}], "loss": "meanSquaredError"})");
  ParameterSet parameters(*ParameterSpecsOf(spec));
  InitializeParameters(spec, 1, parameters);
  EXPECT_THAT(parameters.values(parameters.Find("lstm/bias")), ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0));
  const auto kernel = parameters.values(parameters.Find("lstm/recurrent_kernel"));
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) {
      double dot = 0;
      for (int i = 0; i < 12; ++i) dot += kernel[a * 12 + i] * kernel[b * 12 + i];
      EXPECT_NEAR(dot, a == b ? 1 : 0, 1e-6);
    }
  }
}

TEST(RecurrentModelTest, WhatDoesNotFitIsToldWithItsPlace) {
  EXPECT_THAT(ErrorOf(R"([{"dense": {"units": 3}}])"), HasSubstr("model.layers[0].dense: layer 'dense': input has element type I32"));
  EXPECT_THAT(ErrorOf(R"([{"embedding": {"inputDim": 8, "outputDim": 2}}, {"dense": {"units": 3}}])"),
              HasSubstr("model.layers[0].embedding: inputDim is 8, expected at least the input's vocabulary of 9"));
  EXPECT_THAT(ErrorOf(R"([{"embedding": {"outputDim": 2}}, {"lstm": {"units": 3}}, {"lstm": {"units": 3}}])"),
              HasSubstr("model.layers[2].lstm: a recurrent layer takes [steps, features], found an input of shape [3]"));
  EXPECT_THAT(ErrorOf(R"([{"embedding": {"outputDim": 2}}])", R"({"shape": [6]})"),
              HasSubstr("embedding takes tokens: the model's input with a `vocabulary`, found numbers"));
  EXPECT_THAT(ErrorOf(R"([{"embedding": {"outputDim": 2}}])", R"({"shape": [6, 2], "vocabulary": 9})"),
              HasSubstr("model.input.shape: found [6, 2], expected [steps]"));
  EXPECT_THAT(ErrorOf(R"([{"embedding": {"outputDim": 2}}, {"bidirectional": {"layer": {"lstm": {"units": 3, "stateful": true}}}}])"),
              HasSubstr("model.layers[1].bidirectional.layer.lstm.stateful: found true"));
  EXPECT_THAT(ErrorOf(R"([{"embedding": {"outputDim": 2}}, {"bidirectional": {"layer": {"dense": {"units": 3}}}}])"),
              HasSubstr("model.layers[1].bidirectional.layer: found 0 recurrent layers, expected exactly one of lstm, gru and simpleRnn"));
  EXPECT_THAT(ErrorOf(R"([{"embedding": {"outputDim": 2}}, {"gru": {"units": 3, "activation": "relu"}}])"),
              HasSubstr("model.layers[1].gru.activation"));
}

}  // namespace
}  // namespace trainyard::engine
