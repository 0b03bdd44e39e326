#include "trainer/onnx/export_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainer/model/build_graph.h"
#include "trainer/model/layers/kinds.h"
#include "trainer/model/model_json.h"
#include "trainer/onnx/proto/onnx.pb.h"

namespace trainyard::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelSpec SpecOf(const std::string& text) {
  FieldErrors errors;
  ModelSpec spec = ParseModelSpec(nlohmann::json::parse(text), "model", errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("test");
  return spec;
}

onnx::GraphProto Exported(const std::string& text, const OnnxExportOptions& options = {}) {
  const ModelSpec spec = SpecOf(text);
  const absl::StatusOr<std::string> bytes = OnnxModelOf(spec, ParameterSet(*ParameterSpecsOf(spec)), options);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes.value_or("")));
  EXPECT_EQ(model.opset_import(0).version(), 17);
  return model.graph();
}

std::vector<std::string> TypesOf(const onnx::GraphProto& graph) {
  std::vector<std::string> types;
  for (const onnx::NodeProto& node : graph.node()) types.push_back(node.op_type());
  return types;
}

// "input[batch, steps, 5]"
std::string Text(const onnx::ValueInfoProto& value) {
  std::string text;
  for (const auto& extent : value.type().tensor_type().shape().dim()) {
    text += (text.empty() ? "" : ", ") + (extent.has_dim_param() ? extent.dim_param() : std::to_string(extent.dim_value()));
  }
  return value.name() + "[" + text + "]";
}

std::vector<std::string> Texts(const auto& values) {
  std::vector<std::string> texts;
  for (const onnx::ValueInfoProto& value : values) texts.push_back(Text(value));
  return texts;
}

struct Sample {
  std::string input;
  std::string layer;
  std::string type;  // of the node that the layer becomes; "": none of its own
};

// A kind of layer that is not here, or that is not exported, fails the test.
const std::map<std::string, Sample>& Samples() {
  static const auto& samples = *new std::map<std::string, Sample>{
      {"activation", {"[4]", R"({"function": "sigmoid"})", "Sigmoid"}},
      {"avgPool2d", {"[4, 4, 2]", "{}", "AveragePool"}},
      {"batchNormalization", {"[4]", "{}", "BatchNormalization"}},
      {"bidirectional", {"[4, 2]", R"({"layer": {"gru": {"units": 2}}})", "GRU"}},
      {"conv2d", {"[4, 4, 2]", R"({"filters": 2, "kernelSize": 3})", "Conv"}},
      {"dense", {"[4]", R"({"units": 2})", "Gemm"}},
      {"dropout", {"[4]", R"({"rate": 0.5})", ""}},
      {"embedding", {"[4]", R"({"outputDim": 2})", "Gather"}},
      {"flatten", {"[4, 2]", "{}", "Reshape"}},
      {"globalAveragePool2d", {"[4, 4, 2]", "{}", "GlobalAveragePool"}},
      {"gru", {"[4, 2]", R"({"units": 2})", "GRU"}},
      {"lstm", {"[4, 2]", R"({"units": 2})", "LSTM"}},
      {"maxPool2d", {"[4, 4, 2]", "{}", "MaxPool"}},
      {"reshape", {"[4, 2]", R"({"targetShape": [8]})", "Reshape"}},
      {"simpleRnn", {"[4, 2]", R"({"units": 2})", "RNN"}},
      {"add", {}},  // reads several layers: the test of residual networks
  };
  return samples;
}

TEST(ExportModelTest, EveryKindOfLayerHasAnOnnxForm) {
  for (const LayerKind& kind : LayerKinds()) {
    const std::string name(kind.name);
    ASSERT_TRUE(Samples().contains(name)) << "layer " << name << " has no sample here";
    const Sample& sample = Samples().at(name);
    if (sample.input.empty()) continue;
    const std::string vocabulary = name == "embedding" ? R"(, "vocabulary": 9)" : "";
    const onnx::GraphProto graph = Exported(R"({"input": {"shape": )" + sample.input + vocabulary +
                                            R"(}, "loss": "meanSquaredError", "layers": [{")" + name + "\": " + sample.layer + "}]}");
    if (!sample.type.empty()) {
      EXPECT_THAT(TypesOf(graph), Contains(sample.type)) << name;
    }
  }
}

TEST(ExportModelTest, AnImageIsTransposedOnceBeforeAndOnceBehindItsLayers) {
  EXPECT_THAT(TypesOf(Exported(R"({"preset": "lenet5"})")), ElementsAre("Transpose", "Conv", "Tanh", "MaxPool", "Conv", "Tanh", "MaxPool",
                                                                        "Transpose", "Reshape", "Gemm", "Tanh", "Gemm", "Softmax"));
  int transposes = 0;
  for (const std::string& type : TypesOf(Exported(R"({"preset": "resnet56v2"})"))) transposes += type == "Transpose" ? 1 : 0;
  EXPECT_EQ(transposes, 1);  // the mean of each channel is in one order only
}

TEST(ExportModelTest, InputsAndOutputsHaveOurShapesAndAFreeBatch) {
  const onnx::GraphProto graph = Exported(R"({"preset": "lenet5"})");
  EXPECT_THAT(Texts(graph.input()), ElementsAre("input[batch, 28, 28, 1]"));
  EXPECT_THAT(Texts(graph.output()), ElementsAre("probabilities[batch, 10]", "logits[batch, 10]"));
  EXPECT_THAT(Texts(Exported(R"({"preset": "linear"})").output()), ElementsAre("prediction[batch, 1]"));
}

TEST(ExportModelTest, StatesAreInputsAndOutputsAndStepsAreFree) {
  const onnx::GraphProto graph = Exported(R"({"preset": "ptbLstm", "vocabulary": 50, "units": 7, "numLayers": 1})");
  EXPECT_THAT(Texts(graph.input()), ElementsAre("input[batch, steps]", "lstm1/h[batch, 7]", "lstm1/c[batch, 7]"));
  EXPECT_THAT(Texts(graph.output()), ElementsAre("probabilities[batch, steps, 50]", "logits[batch, steps, 50]", "lstm1/h_next[batch, 7]",
                                                 "lstm1/c_next[batch, 7]"));
  EXPECT_EQ(graph.input(0).type().tensor_type().elem_type(), onnx::TensorProto::INT64);
}

TEST(ExportModelTest, StepsThatALayerCountsAreNotFree) {
  EXPECT_THAT(
      Texts(
          Exported(R"({"input": {"shape": [4, 2]}, "loss": "meanSquaredError", "layers": ["flatten", {"dense": {"units": 1}}]})").input()),
      ElementsAre("input[batch, 4, 2]"));
}

TEST(ExportModelTest, NoTwoTensorsHaveOneName) {
  for (const char* preset : {"lenet5", "mnistCnn", "resnet56v2", "ptbLstm"}) {
    const onnx::GraphProto graph = Exported(R"({"preset": ")" + std::string(preset) + "\"}");
    std::set<std::string> names;
    for (const onnx::TensorProto& tensor : graph.initializer()) EXPECT_TRUE(names.insert(tensor.name()).second) << tensor.name();
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& output : node.output()) EXPECT_TRUE(output.empty() || names.insert(output).second) << output;
    }
  }
}

TEST(ExportModelTest, AnInputThatIsTheOutputIsCopied) {
  EXPECT_THAT(TypesOf(Exported(R"({"input": {"shape": [4]}, "loss": "meanSquaredError", "layers": [{"dropout": {"rate": 0.5}}]})")),
              ElementsAre("Identity"));
}

TEST(ExportModelTest, BytesAreTakenAsTheTrainingsFilesHaveThem) {
  PipelineConfig transforms;
  transforms.examples = {MapConfig{.augment = {}, .normalize = {.scale = 0, .mean = {0.5}, .std = {0.25}}}};
  const OnnxExportOptions options{.transforms = *InputTransformsOf(transforms, DType::kU8, {28, 28, 1}), .metadata = {}};
  const onnx::GraphProto graph = Exported(R"({"preset": "lenet5"})", options);
  EXPECT_EQ(graph.input(0).type().tensor_type().elem_type(), onnx::TensorProto::UINT8);
  std::vector<std::string> types = TypesOf(graph);
  types.resize(4);
  EXPECT_THAT(types, ElementsAre("Cast", "Mul", "Add", "Transpose"));
  EXPECT_FLOAT_EQ(options.transforms->steps.at(0).factor.at(0), 4.0F / 255);
  EXPECT_FLOAT_EQ(options.transforms->steps.at(0).offset.at(0), -2);
}

TEST(ExportModelTest, TransformsAreThoseOfTheStages) {
  PipelineConfig none;
  none.examples.clear();
  EXPECT_THAT(InputTransformsOf(none, DType::kF32, {3})->steps, IsEmpty());
  EXPECT_THAT(InputTransformsOf(none, DType::kU8, {3})->steps.at(0).factor, ElementsAre(1.0F / 255));
  PipelineConfig wrong;
  wrong.examples = {MapConfig{.augment = {}, .normalize = {.scale = 0, .mean = {1, 2}, .std = {}}}};
  EXPECT_THAT(std::string(InputTransformsOf(wrong, DType::kF32, {3}).status().message()), HasSubstr("normalize.mean has 2 numbers"));
}

FittedColumn NumberColumn(double mean, double deviation, std::optional<std::string> missing = std::nullopt) {
  return {.column = {.name = "age"}, .mean = mean, .deviation = deviation, .missing = std::move(missing)};
}

TEST(ExportModelTest, ColumnsAreCentredScaledAndFilledAsTheTrainingDidIt) {
  const std::vector<FittedColumn> columns = {
      NumberColumn(20, 4, "20"), {.column = {.name = "sex"}, .type = ColumnType::kCategory, .categories = {"f", "m"}, .missing = "f"}};
  const OnnxExportOptions options{.transforms = *InputTransformsOf({.examples = {}}, DType::kF32, {3}, columns), .metadata = {}};
  const onnx::GraphProto graph =
      Exported(R"({"input": {"shape": [3]}, "loss": "meanSquaredError", "layers": [{"dense": {"units": 1}}]})", options);
  std::vector<std::string> types = TypesOf(graph);
  types.resize(4);
  EXPECT_THAT(types, ElementsAre("IsNaN", "Where", "Add", "Mul"));
  EXPECT_EQ(options.transforms->missing.at(0), 20);
  EXPECT_TRUE(std::isnan(options.transforms->missing.at(1)));
  EXPECT_THAT(options.transforms->steps.at(0).offset, ElementsAre(-20, 0, 0));
  EXPECT_THAT(options.transforms->steps.at(1).factor, ElementsAre(0.25, 1, 1));
}

TEST(ExportModelTest, ALargeMeanLosesNoDigitsOfAColumn) {
  const std::vector<Normalization> steps = InputTransformsOf({.examples = {}}, DType::kF32, {1}, {{NumberColumn(1.7e9 + 10, 4)}})->steps;
  const float near = 1.7e9F + steps.at(0).offset.at(0);
  EXPECT_NEAR(near * steps.at(1).factor.at(0) + steps.at(1).offset.at(0), -2.5, 1e-6);
}

TEST(ExportModelTest, ColumnsAreNeitherBytesNorBeyondFloats) {
  const auto error_of = [](DType taken, const FittedColumn& column) {
    return std::string(InputTransformsOf({.examples = {}}, taken, {1}, {{column}}).status().message());
  };
  EXPECT_THAT(error_of(DType::kU8, NumberColumn(1, 1)), HasSubstr("found uint8, expected float32"));
  EXPECT_THAT(error_of(DType::kF32, NumberColumn(1e300, 1)), HasSubstr("column \"age\" has the mean 1e+300"));
}

TEST(ExportModelTest, TokensHaveNoTransforms) {
  const ModelSpec spec = SpecOf(R"({"preset": "ptbLstm", "vocabulary": 50})");
  const OnnxExportOptions options{.transforms = InputTransforms(), .metadata = {}};
  EXPECT_THAT(std::string(OnnxModelOf(spec, ParameterSet(*ParameterSpecsOf(spec)), options).status().message()),
              HasSubstr("reads tokens, which have no transforms"));
}

TEST(ExportModelTest, MetadataAreInTheFile) {
  const ModelSpec spec = SpecOf(R"({"preset": "linear"})");
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(
      *OnnxModelOf(spec, ParameterSet(*ParameterSpecsOf(spec)), {.transforms = std::nullopt, .metadata = {{"trainyard.step", "7"}}})));
  ASSERT_EQ(model.metadata_props_size(), 1);
  EXPECT_EQ(model.metadata_props(0).key(), "trainyard.step");
  EXPECT_EQ(model.metadata_props(0).value(), "7");
}

}  // namespace
}  // namespace trainyard::engine
