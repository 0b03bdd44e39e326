#include "trainer/onnx/import_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"
#include "trainer/onnx/export_model.h"
#include "trainer/onnx/onnx_graph.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelSpec ParsedSpec(const std::string& text) {
  FieldErrors errors;
  ModelSpec spec = ParseModelSpec(nlohmann::json::parse(text), "model", errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("test");
  return spec;
}

std::string Layers(const std::string& input, const std::string& layers) {
  return R"({"input": )" + input + R"(, "loss": "meanSquaredError", "layers": [)" + layers + "]}";
}

// Each number is another one.
ParameterSet Numbered(const ModelSpec& spec) {
  ParameterSet parameters(*ParameterSpecsOf(spec));
  float next = 1;
  for (int key = 0; key < parameters.size(); ++key) {
    for (float& value : parameters.values(key)) value = next++;
  }
  return parameters;
}

absl::Status Imported(const std::string& bytes, const std::string& model, std::vector<float>* first = nullptr) {
  const ModelSpec spec = ParsedSpec(model);
  ParameterSet parameters(*ParameterSpecsOf(spec));
  absl::Status status = ImportOnnx(bytes, "net.onnx", spec, parameters);
  if (first != nullptr) first->assign(parameters.values(0).begin(), parameters.values(0).end());
  return status;
}

// A file of another program, as a test writes it.
class Foreign {
 public:
  std::string Tensor(const std::string& name, const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    std::iota(values.begin(), values.end(), 0.0F);
    return graph.AddNumbers(name, shape, values);
  }
  std::string Bytes(const std::function<void(onnx::GraphProto&)>& change = {}) {
    onnx::ModelProto model;
    *model.mutable_graph() = std::move(graph).Finish("foreign");
    if (change) change(*model.mutable_graph());
    return model.SerializeAsString();
  }
  OnnxGraph graph;
};

const std::array kRoundTrips = {
    Layers(R"({"shape": [6, 5, 2]})", R"({"conv2d": {"filters": 3, "kernelSize": [2, 3]}}, {"batchNormalization": {}}, "flatten",
                                         {"batchNormalization": {"epsilon": 1e-5}}, {"dense": {"units": 2, "useBias": false}})"),
    Layers(R"({"shape": [6, 2]})", R"({"lstm": {"units": 3, "returnSequences": true}}, {"gru": {"units": 2, "returnSequences": true}},
                                      {"dense": {"units": 4}}, {"simpleRnn": {"units": 2, "goBackwards": true}})"),
    Layers(
        R"({"shape": [6], "vocabulary": 7})",
        R"({"embedding": {"outputDim": 2}}, {"bidirectional": {"layer": {"gru": {"units": 3, "useBias": false}}}}, {"dense": {"units": 2}})"),
    std::string(R"({"preset": "lenet5"})"),
    std::string(R"({"preset": "ptbLstm", "vocabulary": 30, "units": 4, "embedding": 3})"),
};

TEST(ImportModelTest, AnExportedFileComesBackToTheBit) {
  for (const std::string& model : kRoundTrips) {
    const ModelSpec spec = ParsedSpec(model);
    const ParameterSet before = Numbered(spec);
    ParameterSet after(*ParameterSpecsOf(spec));
    const absl::Status status = ImportOnnx(*OnnxModelOf(spec, before), "net.onnx", spec, after);
    EXPECT_TRUE(status.ok()) << model << ": " << status;
    EXPECT_EQ(after.Sha256Hex(), before.Sha256Hex()) << model;
  }
}

TEST(ImportModelTest, TakesAllTheLayersOfADeepNetwork) {
  const ModelSpec spec = ParsedSpec(R"({"preset": "resnet56v2"})");
  const ParameterSet before = Numbered(spec);
  ParameterSet after(*ParameterSpecsOf(spec));
  ASSERT_TRUE(ImportOnnx(*OnnxModelOf(spec, before), "net.onnx", spec, after).ok());
  EXPECT_EQ(after.Sha256Hex(), before.Sha256Hex());
}

// As PyTorch exports Conv2d, ReLU, Flatten and Linear: no Transpose, weights [out, in].
Foreign TorchNetwork() {
  Foreign file;
  OnnxGraph& graph = file.graph;
  const std::string x = graph.NewName("x");
  const std::string conv = graph.Add("Conv", {x, file.Tensor("conv.weight", {2, 1, 1, 1}), file.Tensor("conv.bias", {2})}, "conv");
  const std::string relu = graph.Add("Relu", {conv}, "relu");
  const std::string flat = graph.Add("Flatten", {relu}, "flat");
  graph.Add("Gemm", {flat, file.Tensor("fc.weight", {1, 4}), file.Tensor("fc.bias", {1})}, "fc");
  SetInteger(graph.last_node(), "transB", 1);
  return file;
}
const std::string& TorchModel() {
  static const auto& model = *new std::string(
      Layers(R"({"shape": [1, 2, 1]})",
             R"({"name": "c", "conv2d": {"filters": 2, "kernelSize": 1}}, "flatten", {"name": "d", "dense": {"units": 1}})"));
  return model;
}

TEST(ImportModelTest, PyTorchsOrderBehindAFlattenBecomesOurs) {
  const ModelSpec spec = ParsedSpec(TorchModel());
  ParameterSet parameters(*ParameterSpecsOf(spec));
  const absl::Status status = ImportOnnx(TorchNetwork().Bytes(), "net.onnx", spec, parameters);
  ASSERT_TRUE(status.ok()) << status;
  // The file has (channel 0: columns 0, 1), (channel 1: columns 0, 1).
  EXPECT_THAT(std::vector<float>(parameters.values(2).begin(), parameters.values(2).end()), ElementsAre(0, 2, 1, 3));
}

TEST(ImportModelTest, TakesAMatMulAndItsBiasFromTwoNodes) {
  Foreign file;
  const std::string weight = file.graph.Add("Transpose", {file.Tensor("w", {2, 3})}, "w_t");
  const std::string product = file.graph.Add("MatMul", {file.graph.NewName("x"), weight}, "product");
  file.graph.Add("Add", {file.Tensor("b", {2}), product}, "sum");
  std::vector<float> kernel;
  const absl::Status status = Imported(file.Bytes(), Layers(R"({"shape": [3]})", R"({"dense": {"units": 2}})"), &kernel);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(kernel, ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(ImportModelTest, TakesBothDirectionsOfOneOperator) {
  Foreign file;
  file.graph.Add("LSTM", {file.graph.NewName("x"), file.Tensor("w", {2, 8, 3}), file.Tensor("r", {2, 8, 2}), file.Tensor("b", {2, 16})},
                 "y");
  SetText(file.graph.last_node(), "direction", "bidirectional");
  const std::string model = Layers(R"({"shape": [4, 3]})", R"({"bidirectional": {"layer": {"lstm": {"units": 2}}}})");
  const absl::Status status = Imported(file.Bytes(), model);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ImportModelTest, WrongShapesAreNamedAllAtOnce) {
  const std::string model = Layers(R"({"shape": [1, 2, 1]})", R"({"name": "c", "conv2d": {"filters": 3, "kernelSize": 1}}, "flatten",
                                                                 {"name": "d", "dense": {"units": 1}})");
  EXPECT_THAT(std::string(Imported(TorchNetwork().Bytes(), model).message()),
              AllOf(HasSubstr("net.onnx: tensor 'conv.weight' is [1, 1, 1, 2] in the order of parameter 'c/kernel', expected [1, 1, 1, 3]"),
                    HasSubstr("tensor 'conv.bias' is [2]"), HasSubstr("tensor 'fc.weight' is [4, 1]")));
}

TEST(ImportModelTest, OtherLayersAreRefused) {
  const std::string dense = Layers(R"({"shape": [3]})", R"({"name": "d", "dense": {"units": 1}})");
  EXPECT_THAT(std::string(Imported(TorchNetwork().Bytes(), dense).message()),
              HasSubstr("Conv 'conv' is of kind conv2d, but the job's layer 'd' at this place is of kind dense"));
  const std::string conv = Layers(R"({"shape": [1, 2, 1]})", R"({"name": "c", "conv2d": {"filters": 2, "kernelSize": 1}})");
  EXPECT_THAT(std::string(Imported(TorchNetwork().Bytes(), conv).message()), HasSubstr("the job has no layer for Gemm 'fc'"));
  EXPECT_THAT(std::string(Imported(Foreign().Bytes(), dense).message()), HasSubstr("the file has nothing for the job's layer 'd'"));
}

TEST(ImportModelTest, ABiasOrEpsilonOfOneSideOnlyIsRefused) {
  const std::string with_norm = Layers(R"({"shape": [2]})", R"({"name": "n", "batchNormalization": {"epsilon": 1e-5}})");
  const ModelSpec spec = ParsedSpec(Layers(R"({"shape": [2]})", R"({"name": "n", "batchNormalization": {}})"));
  EXPECT_THAT(std::string(Imported(*OnnxModelOf(spec, Numbered(spec)), with_norm).message()), HasSubstr("set its epsilon in the job file"));
  const ModelSpec dense = ParsedSpec(Layers(R"({"shape": [2]})", R"({"name": "d", "dense": {"units": 1}})"));
  EXPECT_THAT(std::string(Imported(*OnnxModelOf(dense, Numbered(dense)),
                                   Layers(R"({"shape": [2]})", R"({"name": "d", "dense": {"units": 1, "useBias": false}})"))
                              .message()),
              HasSubstr("has a bias, but the job's layer 'd' has none"));
}

TEST(ImportModelTest, AnUnknownOrderOfElementsIsRefused) {
  const std::string bytes = TorchNetwork().Bytes([](onnx::GraphProto& graph) { graph.mutable_node(1)->set_op_type("Mystery"); });
  EXPECT_THAT(std::string(Imported(bytes, TorchModel()).message()), HasSubstr("reads tensor 'flat', expected a flattened image"));
}

TEST(ImportModelTest, HostileFilesAreRefusedByName) {
  const auto refused = [](const std::function<void(onnx::GraphProto&)>& change) {
    const absl::Status status = Imported(TorchNetwork().Bytes(change), TorchModel());
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_THAT(std::string(Imported("PK\3\4", TorchModel()).message()), HasSubstr("net.onnx: is not an ONNX file, or is cut off"));
  EXPECT_THAT(std::string(Imported("", TorchModel()).message()), HasSubstr("is not an ONNX file"));
  EXPECT_THAT(refused([](auto& graph) { graph.mutable_initializer(0)->set_dims(0, -2); }),
              HasSubstr("tensor 'conv.weight' has an extent of -2"));
  EXPECT_THAT(refused([](auto& graph) { graph.mutable_initializer(0)->set_dims(0, INT64_MAX); }), HasSubstr("expected at most"));
  EXPECT_THAT(refused([](auto& graph) {
                for (int axis = 0; axis < 4; ++axis) graph.mutable_initializer(0)->set_dims(axis, axis == 0 ? 0 : int64_t{1} << 29);
                graph.mutable_initializer(0)->clear_raw_data();
              }),
              HasSubstr("tensor 'conv.weight' has an extent of 536870912, expected at most 536870912 elements in all"));
  EXPECT_THAT(refused([](auto& graph) { graph.mutable_initializer(0)->set_dims(0, 1000); }),
              HasSubstr("has 8 bytes of data, expected 4000"));
  EXPECT_THAT(refused([](auto& graph) { graph.mutable_initializer(0)->set_data_type(onnx::TensorProto::DOUBLE); }),
              HasSubstr("is of ONNX type 11, expected 1 (float32)"));
  EXPECT_THAT(refused([](auto& graph) { graph.mutable_initializer(0)->set_data_location(onnx::TensorProto::EXTERNAL); }),
              HasSubstr("has its data in another file"));
  EXPECT_THAT(refused([](auto& graph) {
                for (int i = 0; i < 20; ++i) graph.mutable_initializer(0)->add_dims(1);
              }),
              HasSubstr("has 24 axes"));
  EXPECT_THAT(refused([](auto& graph) { graph.mutable_node(0)->set_input(1, "x"); }), HasSubstr("tensor 'x' is computed by the network"));
  EXPECT_THAT(refused([](auto& graph) { graph.mutable_node(0)->clear_input(); }), HasSubstr("Conv 'conv'"));
  // A cycle.
  EXPECT_THAT(refused([](auto& graph) { graph.mutable_node(1)->set_input(0, "flat"); }), HasSubstr("expected a flattened image"));
  EXPECT_THAT(refused([](auto& graph) { SetInteger(*graph.mutable_node(0), "group", 2); }), HasSubstr("has 2 groups"));
  EXPECT_THAT(refused([](auto& graph) {
                float nan = std::numeric_limits<float>::quiet_NaN();
                std::memcpy(graph.mutable_initializer(1)->mutable_raw_data()->data() + sizeof(nan), &nan, sizeof(nan));
              }),
              HasSubstr("Conv 'conv': tensor 'conv.bias' has the number nan at element 1, expected finite ones"));
}

// x → Gemm → what `between` adds → Gemm.
std::string WithBetween(const std::function<std::string(Foreign&, const std::string&)>& between) {
  Foreign file;
  const std::string first = file.graph.Add("Gemm", {file.graph.NewName("x"), file.Tensor("w1", {3, 4}), file.Tensor("b1", {4})}, "first");
  const std::string middle = between(file, first);
  file.graph.Add("Gemm", {middle, file.Tensor("w2", {4, 2}), file.Tensor("b2", {2})}, "second");
  return file.Bytes();
}

absl::Status ImportedBetween(const std::function<std::string(Foreign&, const std::string&)>& between) {
  return Imported(WithBetween(between), Layers(R"({"shape": [3]})", R"({"dense": {"units": 4}}, {"dense": {"units": 2}})"));
}

TEST(ImportModelTest, WeightsThatNoLayerTakesAreRefusedByTheirNode) {
  const auto refused = [](const std::function<std::string(Foreign&, const std::string&)>& between) {
    return std::string(ImportedBetween(between).message());
  };
  constexpr char kTaken[] = "import takes those of Conv, Gemm, MatMul and Add, BatchNormalization, Gather, LSTM, GRU and RNN";
  EXPECT_THAT(refused([](Foreign& file, const std::string& x) {
                return file.graph.Add("LayerNormalization", {x, file.Tensor("gamma", {4}), file.Tensor("beta", {4})}, "norm");
              }),
              AllOf(HasSubstr("LayerNormalization 'norm': is an operator with weights that no layer here has"), HasSubstr(kTaken)));
  EXPECT_THAT(refused([](Foreign& file, const std::string& x) { return file.graph.Add("PRelu", {x, file.Tensor("slope", {1})}, "act"); }),
              HasSubstr("PRelu 'act'"));
  EXPECT_THAT(refused([](Foreign& file, const std::string& x) { return file.graph.Add("Mul", {x, file.Tensor("gamma", {4})}, "scaled"); }),
              AllOf(HasSubstr("Mul 'scaled': has the weights 'gamma', which no layer here takes"), HasSubstr(kTaken)));
  EXPECT_THAT(refused([](Foreign& file, const std::string& x) {  // as exporters broadcast a parameter
                const std::string wide = file.graph.Add(
                    "Unsqueeze", {file.Tensor("gamma", {4}), file.graph.AddIntegers("axes", std::array<int64_t, 1>{0})}, "wide");
                return file.graph.Add("Mul", {wide, file.graph.Add("Relu", {x}, "relu")}, "scaled");
              }),
              HasSubstr("Mul 'scaled': has the weights 'wide'"));
  EXPECT_THAT(refused([](Foreign& file, const std::string& x) { return file.graph.Add("Add", {x, file.Tensor("more", {1, 4})}, "sum"); }),
              HasSubstr("Add 'sum': has the weights 'more'"));
  EXPECT_THAT(
      refused([](Foreign& file, const std::string& x) { return file.graph.Add("MatMul", {file.Tensor("left", {4, 4}), x}, "left_x"); }),
      HasSubstr("MatMul 'left_x': has the weights 'left'"));
}

TEST(ImportModelTest, NumbersOfActivationsAndOfTheInputsTransformsAreNoWeights) {
  EXPECT_TRUE(ImportedBetween([](Foreign& file, const std::string& x) {
                const std::string half = file.graph.Add("Mul", {x, file.Tensor("half", {1})}, "half_x");
                return file.graph.Add("Dropout", {file.graph.Add("Softmax", {half}, "soft")}, "dropped");
              }).ok());
  Foreign file;
  const std::string centred = file.graph.Add("Sub", {file.graph.NewName("x"), file.Tensor("mean", {3})}, "centred");
  const std::string scaled = file.graph.Add("Div", {centred, file.Tensor("std", {3})}, "scaled");
  file.graph.Add("Gemm", {scaled, file.Tensor("w", {3, 2}), file.Tensor("b", {2})}, "only");
  const absl::Status status = Imported(file.Bytes(), Layers(R"({"shape": [3]})", R"({"dense": {"units": 2}})"));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ImportModelTest, DilatedKernelsAreRefused) {
  const auto imported = [](int64_t extent) {
    Foreign file;
    file.graph.Add("Conv", {file.graph.NewName("x"), file.Tensor("w", {2, 1, 1, extent}), file.Tensor("b", {2})}, "conv");
    SetIntegers(file.graph.last_node(), "dilations", std::array<int64_t, 2>{2, 2});
    return Imported(file.Bytes(),
                    Layers(R"({"shape": [4, 4, 1]})", R"({"conv2d": {"filters": 2, "kernelSize": [1, )" + std::to_string(extent) + "]}}"));
  };
  EXPECT_EQ(std::string(imported(3).message()), "net.onnx: Conv 'conv': has dilations [2, 2], expected 1: conv2d has no dilations");
  EXPECT_TRUE(imported(1).ok());
}

TEST(ImportModelTest, NamesInErrorsArePrintable) {
  const std::string bytes = TorchNetwork().Bytes([](onnx::GraphProto& graph) {
    graph.mutable_initializer(0)->set_name("\x1b[2Jw");
    graph.mutable_initializer(0)->set_dims(0, 1000);
    graph.mutable_node(0)->set_input(1, "\x1b[2Jw");
    graph.mutable_node(0)->set_name("a\nb");
  });
  EXPECT_THAT(std::string(Imported(bytes, TorchModel()).message()), HasSubstr("Conv 'a?b': tensor '?[2Jw' of shape"));
}

TEST(ImportModelTest, ATensorThatIsNamedOftenIsNotCopiedOften) {
  const std::string bytes = TorchNetwork().Bytes([](onnx::GraphProto& graph) {
    constexpr int64_t kElements = 1 << 22;
    graph.mutable_initializer(0)->set_dims(0, kElements);
    graph.mutable_initializer(0)->mutable_raw_data()->resize(kElements * sizeof(float));
    const onnx::NodeProto conv = graph.node(0);
    for (int i = 0; i < 1000; ++i) *graph.add_node() = conv;
  });
  EXPECT_THAT(std::string(Imported(bytes, TorchModel()).message()), HasSubstr("tensor 'conv.weight' is one too many"));
}

TEST(ImportModelTest, RecurrentOperatorsOfAnotherFormAreRefused) {
  const std::string model = Layers(R"({"shape": [4, 3]})", R"({"gru": {"units": 2}})");
  const auto refused = [&](const std::function<void(onnx::NodeProto&)>& change) {
    const ModelSpec spec = ParsedSpec(model);
    onnx::ModelProto file;
    EXPECT_TRUE(file.ParseFromString(*OnnxModelOf(spec, Numbered(spec))));
    for (onnx::NodeProto& node : *file.mutable_graph()->mutable_node()) {
      if (node.op_type() == "GRU") change(node);
    }
    return std::string(Imported(file.SerializeAsString(), model).message());
  };
  EXPECT_THAT(refused([](auto& node) { node.clear_attribute(); }), HasSubstr("has linear_before_reset 0, expected 1"));
  EXPECT_THAT(refused([](auto& node) { SetText(node, "direction", "reverse"); }), HasSubstr("goes backwards, but the job's layer"));
  EXPECT_THAT(refused([](auto& node) { SetText(node, "direction", "sideways"); }), HasSubstr("has direction 'sideways'"));
  EXPECT_THAT(refused([](auto& node) { node.set_input(1, node.input(2)); }), HasSubstr("is [2, 6] in the order of parameter"));
  EXPECT_THAT(refused([](auto& node) { SetNumber(node, "clip", 3); }), HasSubstr("has clip 3, expected none"));
  EXPECT_THAT(refused([](auto& node) { SetInteger(node, "layout", 1); }), HasSubstr("has layout 1, expected 0"));
  EXPECT_THAT(refused([](auto& node) {
                node.set_op_type("LSTM");
                SetInteger(node, "input_forget", 1);
              }),
              HasSubstr("has input_forget 1, expected 0"));
  EXPECT_THAT(refused([](auto& node) { node.set_op_type("LSTM"); }), HasSubstr("expected [directions, gates x units, units]"));
  EXPECT_THAT(refused([](auto& node) { node.mutable_input()->DeleteSubrange(2, node.input_size() - 2); }),
              HasSubstr("expected X, W and R"));
}

}  // namespace
}  // namespace trainyard::engine
