#include "trainer/model/model_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "trainer/model/build_graph.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Parses a model that must be good.
ModelSpec Good(std::string_view text) {
  FieldErrors errors;
  ModelSpec spec = ParseModelSpec(nlohmann::json::parse(text), "model", errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("test");
  return spec;
}

// The messages for a model that must be refused.
std::string Bad(std::string_view text) {
  FieldErrors errors;
  ParseModelSpec(nlohmann::json::parse(text), "model", errors);
  EXPECT_FALSE(errors.empty()) << text;
  return std::string(errors.ToStatus("test").message());
}

// The attributes of the nodes that the spec's layers become, in order.
template <typename T>
std::vector<T> OpsOf(const ModelSpec& spec) {
  std::vector<T> ops;
  const auto graph = BuildEvaluationGraph(spec, 2);
  EXPECT_TRUE(graph.ok()) << graph.status();
  for (const Node& node : graph->nodes()) {
    if (const T* op = std::get_if<T>(&node.op)) ops.push_back(*op);
  }
  return ops;
}

// A model of these layers for 28x28 images.
std::string Layers(std::string_view layers) {
  return R"({"input": {"shape": [28, 28, 1]}, "loss": "softmaxCrossEntropy", "layers": [)" + std::string(layers) + "]}";
}

std::vector<std::string> ParametersOf(const ModelSpec& spec) {
  std::vector<std::string> texts;
  const auto parameters = ParameterSpecsOf(spec);
  EXPECT_TRUE(parameters.ok()) << parameters.status();
  for (const ParameterSpec& parameter : *parameters) texts.push_back(parameter.name + " " + parameter.shape.ToString());
  return texts;
}

TEST(ModelJsonTest, LeNet5IsTheNetworkOfTheStudy) {
  const ModelSpec spec = Good(R"({"preset": "lenet5"})");
  EXPECT_EQ(spec.name, "lenet5");
  EXPECT_THAT(ParametersOf(spec),
              ElementsAre("conv1/kernel [5, 5, 1, 20]", "conv1/bias [20]", "conv2/kernel [5, 5, 20, 50]", "conv2/bias [50]",
                          "dense1/kernel [800, 500]", "dense1/bias [500]", "dense2/kernel [500, 10]", "dense2/bias [10]"));
}

TEST(ModelJsonTest, PresetsTakeTheirOptions) {
  EXPECT_THAT(ParametersOf(Good(R"({"preset": "linear", "inputs": 3, "outputs": 2})")),
              ElementsAre("dense/kernel [3, 2]", "dense/bias [2]"));
  EXPECT_EQ(*ClassCountOf(Good(R"({"preset": "lenet5", "inputShape": [32, 32, 3], "classes": 100})")), 100);
  EXPECT_EQ(*ClassCountOf(Good(R"({"preset": "linear"})")), 0);
}

TEST(ModelJsonTest, MnistCnnIsTheNetworkOfTheAllReduceStudy) {
  EXPECT_THAT(ParametersOf(Good(R"({"preset": "mnistCnn"})")),
              ElementsAre("conv1/kernel [3, 3, 1, 32]", "conv1/bias [32]", "conv2/kernel [3, 3, 32, 64]", "conv2/bias [64]",
                          "dense1/kernel [9216, 128]", "dense1/bias [128]", "dense2/kernel [128, 10]", "dense2/bias [10]"));
}

// The counts that Keras prints for its example.
TEST(ModelJsonTest, ResNet56V2IsKerasExample) {
  const ModelSpec spec = Good(R"({"preset": "resnet56v2"})");
  int64_t trainable = 0;
  int64_t fixed = 0;
  const auto parameters = ParameterSpecsOf(spec);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  for (const ParameterSpec& parameter : *parameters) (parameter.trainable ? trainable : fixed) += parameter.shape.elements();
  EXPECT_EQ(trainable, 1'663'338);
  EXPECT_EQ(fixed, 10'400);
  EXPECT_EQ(OpsOf<Conv2dOp>(spec).size(), 1 + 3 * 6 * 3 + 3) << "with dense 56 layers, and three shortcuts";
  EXPECT_EQ(*ClassCountOf(spec), 10);
}

TEST(ModelJsonTest, BatchNormalizationHasFourParametersOfWhichTwoAreTrained) {
  const ModelSpec spec =
      Good(Layers(R"({"conv2d": {"filters": 3, "kernelSize": 3}}, {"batchNormalization": {"momentum": 0.9, "epsilon": 0.01}},
                                        "globalAveragePool2d", {"dense": {"units": 4, "kernelRegularizer": {"l2": 0.5}}})"));
  EXPECT_THAT(ParametersOf(spec), ElementsAre("conv2d/kernel [3, 3, 1, 3]", "conv2d/bias [3]", "batchNormalization/gamma [3]",
                                              "batchNormalization/beta [3]", "batchNormalization/moving_mean [3]",
                                              "batchNormalization/moving_variance [3]", "dense/kernel [3, 4]", "dense/bias [4]"));
  const std::vector<BatchNormOp> norms = OpsOf<BatchNormOp>(spec);
  ASSERT_EQ(norms.size(), 1u);
  EXPECT_FLOAT_EQ(norms[0].momentum, 0.9F);
  EXPECT_FLOAT_EQ(norms[0].epsilon, 0.01F);
  const std::vector<L2PenaltyOp> penalties = OpsOf<L2PenaltyOp>(spec);
  ASSERT_EQ(penalties.size(), 1u);
  EXPECT_FLOAT_EQ(penalties[0].l2, 0.5F);
}

TEST(ModelJsonTest, WrongNormalizationsAndRegularizersAreNamed) {
  EXPECT_THAT(Bad(Layers(R"("flatten", {"batchNormalization": {"momentum": 1}}, {"dense": {"units": 4}})")),
              HasSubstr("model.layers[1].batchNormalization.momentum: found 1, expected a number from 0 to below 1"));
  EXPECT_THAT(Bad(Layers(R"("flatten", {"dense": {"units": 4, "kernelRegularizer": {"l1": 1}}})")),
              HasSubstr("model.layers[1].dense.kernelRegularizer.l2"));
  EXPECT_THAT(Bad(Layers(R"("flatten", "globalAveragePool2d", {"dense": {"units": 4}})")), HasSubstr("globalAveragePool2d takes [height"));
}

TEST(ModelJsonTest, LayersWithoutNamesAreCountedAsInKeras) {
  const ModelSpec spec = Good(Layers(R"("flatten", {"dense": {"units": 8}}, {"dense": {"units": 4}})"));
  EXPECT_THAT(ParametersOf(spec), ElementsAre("dense/kernel [784, 8]", "dense/bias [8]", "dense_1/kernel [8, 4]", "dense_1/bias [4]"));
}

TEST(ModelJsonTest, ALayerMayReadAnyEarlierOne) {
  const ModelSpec spec = Good(Layers(R"({"name": "a", "conv2d": {"filters": 2, "kernelSize": 3, "padding": "same"}},
      {"name": "b", "inputs": ["input"], "conv2d": {"filters": 2, "kernelSize": 1}},
      {"inputs": ["a", "b"], "add": {}}, "flatten", {"dense": {"units": 10}})"));
  EXPECT_THAT(spec.layers[2].inputs, ElementsAre("a", "b"));
  EXPECT_TRUE(BuildTrainingGraph(spec, 16).ok());
}

TEST(ModelJsonTest, SizesMayBeOneNumberOrTwo) {
  const ModelSpec spec =
      Good(Layers(R"({"conv2d": {"filters": 2, "kernelSize": [5, 3], "strides": 2}}, "flatten", {"dense": {"units": 2}})"));
  const std::vector<Conv2dOp> convolutions = OpsOf<Conv2dOp>(spec);
  ASSERT_EQ(convolutions.size(), 1u);
  EXPECT_EQ(convolutions[0].window, (Window{.size = {5, 3}, .stride = {2, 2}, .padding = Padding::kValid}));
}

TEST(ModelJsonTest, PoolStridesDefaultToThePoolSize) {
  const ModelSpec spec = Good(Layers(R"({"maxPool2d": {"poolSize": 4}}, "flatten", {"dense": {"units": 2}})"));
  const std::vector<MaxPoolOp> pools = OpsOf<MaxPoolOp>(spec);
  ASSERT_EQ(pools.size(), 1u);
  EXPECT_EQ(pools[0].window.stride, (std::array<int32_t, 2>{4, 4}));
}

TEST(ModelJsonTest, ASoftmaxAtTheEndIsTheLosssOwn) {
  const auto with = BuildTrainingGraph(Good(Layers(R"("flatten", {"dense": {"units": 10, "activation": "softmax"}})")), 4);
  const auto without = BuildTrainingGraph(Good(Layers(R"("flatten", {"dense": {"units": 10}})")), 4);
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ(with->nodes().size(), without->nodes().size());
}

TEST(ModelJsonTest, AnUnknownPresetIsRefusedWithTheKnownOnes) {
  EXPECT_THAT(Bad(R"({"preset": "lenet6"})"), HasSubstr("model.preset: found \"lenet6\", expected one of linear, lenet5, mnistCnn"));
}

TEST(ModelJsonTest, AnOptionThatThePresetDoesNotHaveIsRefused) {
  EXPECT_THAT(Bad(R"({"preset": "lenet5", "clases": 10})"), HasSubstr("model.clases: unknown field; did you mean \"classes\"?"));
  EXPECT_THAT(Bad(R"({"preset": "lenet5", "layers": []})"), HasSubstr("model.layers: unknown field"));
}

TEST(ModelJsonTest, EveryMistakeIsToldAtOnceWithItsPath) {
  const std::string text =
      Bad(Layers(R"({"conv2d": {"filters": "x", "kernelSize": 5, "stride": 1}}, {"danse": {}}, {"dense": {"units": 0}})"));
  EXPECT_THAT(text, HasSubstr("test: 4 errors"));
  EXPECT_THAT(text, HasSubstr("model.layers[0].conv2d.filters: found \"x\", expected a whole number from 1 to 65536"));
  EXPECT_THAT(text, HasSubstr("model.layers[0].conv2d.stride: unknown field; did you mean \"strides\"?"));
  EXPECT_THAT(text, HasSubstr("model.layers[1].danse: unknown layer; did you mean \"dense\"?"));
  EXPECT_THAT(text, HasSubstr("model.layers[2].dense.units: found 0, expected a whole number from 1 to"));
}

TEST(ModelJsonTest, MissingFieldsAreToldWithWhatIsExpected) {
  EXPECT_THAT(Bad(Layers(R"({"dense": {}})")), HasSubstr("model.layers[0].dense.units: missing, expected a whole number"));
  EXPECT_THAT(Bad("{}"), HasSubstr("model.layers: missing, expected a list of layers"));
  EXPECT_THAT(Bad("{}"), HasSubstr("model.input: missing, expected an object such as {shape: [28, 28, 1]}"));
  EXPECT_THAT(Bad("{}"), HasSubstr("model.loss: missing, expected one of softmaxCrossEntropy, meanSquaredError"));
}

TEST(ModelJsonTest, AModelThatIsNoObjectIsRefused) {
  EXPECT_THAT(Bad("3"), HasSubstr("model: found 3, expected an object"));
  EXPECT_THAT(Bad(Layers("7")), HasSubstr("model.layers[0]: found 7, expected a layer"));
  EXPECT_THAT(Bad(Layers("")), HasSubstr("model.layers: found a list of 0, expected a list of 1 to 1000 layers"));
}

TEST(ModelJsonTest, AnUnknownActivationIsRefusedWithTheKnownOnes) {
  EXPECT_THAT(Bad(Layers(R"("flatten", {"dense": {"units": 3, "activation": "tahn"}})")),
              HasSubstr("dense.activation: found \"tahn\", expected one of linear, identity, tanh, relu, sigmoid, softmax"));
}

TEST(ModelJsonTest, EveryActivationMayBeNamedAndIsDocumented) {
  std::ifstream file("docs/models.md");
  std::string row;
  while (std::getline(file, row) && !row.starts_with("| `activation` |")) {
  }
  VisitActivations([&]<Activation kActivation>() {
    const std::string name(ActivationName(kActivation));
    EXPECT_THAT(row, HasSubstr("`" + name + "`")) << "docs/models.md";
    const ModelSpec spec = Good(Layers(R"("flatten", {"activation": {"function": ")" + name + R"("}}, {"dense": {"units": 3}})"));
    const std::vector<ActivationOp> ops = OpsOf<ActivationOp>(spec);
    if (kActivation == Activation::kIdentity) {
      EXPECT_TRUE(ops.empty()) << "linear layers need no node";
    } else {
      ASSERT_EQ(ops.size(), 1u) << name;
      EXPECT_EQ(ops[0].activation, kActivation);
    }
  });
}

TEST(ModelJsonTest, ALayerWithTwoKindsIsRefused) {
  EXPECT_THAT(Bad(Layers(R"({"dense": {"units": 3}, "flatten": {}})")),
              HasSubstr("model.layers[0]: found 2 layer kinds: dense, flatten, expected exactly one"));
}

TEST(ModelJsonTest, NamesAreUniqueAndWellSpelt) {
  EXPECT_THAT(Bad(Layers(R"({"name": "a", "flatten": {}}, {"name": "a", "dense": {"units": 2}})")),
              HasSubstr("model.layers[1].name: found \"a\" again"));
  EXPECT_THAT(Bad(Layers(R"({"name": "a/b", "flatten": {}})")),
              HasSubstr("model.layers[0].name: found \"a/b\", expected 1 to 100 letters"));
  EXPECT_THAT(Bad(Layers(R"({"name": "loss", "flatten": {}})")), HasSubstr("a name that is kept for the network's own"));
}

TEST(ModelJsonTest, AnInputThatComesLaterOrNeverIsRefused) {
  EXPECT_THAT(Bad(Layers(R"({"name": "a", "inputs": ["b"], "flatten": {}}, {"name": "b", "dense": {"units": 2}})")),
              HasSubstr("model.layers[0].inputs[0]: found \"b\", expected \"input\" or the name of a layer before this one"));
}

TEST(ModelJsonTest, ALayerThatNothingReadsIsRefused) {
  EXPECT_THAT(Bad(Layers(R"({"name": "a", "flatten": {}}, {"name": "b", "inputs": ["input"], "flatten": {}}, {"dense": {"units": 2}})")),
              HasSubstr("model.layers[0].flatten: nothing reads layer \"a\""));
}

TEST(ModelJsonTest, ShapesThatDoNotFitAreToldAtTheirLayer) {
  EXPECT_THAT(
      Bad(Layers(R"({"maxPool2d": {"poolSize": 12}}, {"conv2d": {"filters": 3, "kernelSize": 5}}, "flatten", {"dense": {"units": 3}})")),
      HasSubstr("model.layers[1].conv2d: "));
  EXPECT_THAT(Bad(Layers(R"("flatten", {"conv2d": {"filters": 3, "kernelSize": 5}})")),
              HasSubstr("model.layers[1].conv2d: conv2d takes [height, width, channels], found an input of shape [784]"));
  EXPECT_THAT(Bad(Layers(R"("flatten", {"reshape": {"targetShape": [10, 10]}})")),
              HasSubstr("targetShape [10, 10] does not hold the 784 elements of input [784]"));
  EXPECT_THAT(Bad(Layers(R"({"dense": {"units": 3}})")), HasSubstr("the last layer gives [28, 28, 3] for each example"));
  EXPECT_THAT(Bad(Layers(R"({"name": "a", "flatten": {}}, {"inputs": ["a"], "add": {}})")),
              HasSubstr("found 1 input, expected two or more"));
}

TEST(ModelJsonTest, NumbersWhoseProductWouldOverflowAreRefused) {
  EXPECT_THAT(Bad(R"({"input": {"shape": [1000000, 1000000, 1000]}, "loss": "softmaxCrossEntropy", "layers": ["flatten"]})"),
              HasSubstr("model.input.shape: the input would have"));
  EXPECT_THAT(Bad(Layers(R"({"conv2d": {"filters": 65536, "kernelSize": 1024, "padding": "same"}},
                            {"conv2d": {"filters": 65536, "kernelSize": 1024, "padding": "same"}})")),
              HasSubstr("elements, at most"));
  EXPECT_THAT(Bad(Layers(R"({"reshape": {"targetShape": [16777216, 16777216, 16777216, 16777216]}})")), HasSubstr("at most"));
}

TEST(ModelJsonTest, AReshapeMayLeaveOneExtentOpen) {
  const ModelSpec spec = Good(Layers(R"({"reshape": {"targetShape": [4, -1]}}, "flatten", {"dense": {"units": 3}})"));
  EXPECT_TRUE(BuildInferenceGraph(spec, 3).ok());
  EXPECT_THAT(Bad(Layers(R"({"reshape": {"targetShape": [-1, -1]}})")), HasSubstr("found more than one -1"));
  EXPECT_THAT(Bad(Layers(R"({"reshape": {"targetShape": [0, -1]}})")), HasSubstr("found 0, expected extents >= 1"));
}

}  // namespace
}  // namespace trainyard::engine
