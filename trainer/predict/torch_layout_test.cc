#include "trainer/predict/torch_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>

#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelSpec ParsedSpec(const std::string& text) {
  FieldErrors errors;
  ModelSpec spec = ParseModelSpec(nlohmann::json::parse(text), "model", errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("test");
  return spec;
}

// Every parameter counts 0, 1, 2 ….
ParameterSet Counted(const ModelSpec& spec) {
  ParameterSet parameters(*ParameterSpecsOf(spec));
  for (int key = 0; key < parameters.size(); ++key) std::iota(parameters.values(key).begin(), parameters.values(key).end(), 0.0F);
  return parameters;
}

class TorchLayout : public ::testing::Test {
 protected:
  void Export(const std::string& model) {
    const ModelSpec spec = ParsedSpec(model);
    auto tensors = TorchTensorsOf(spec, Counted(spec));
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    tensors_ = *std::move(tensors);
  }
  const TorchTensor& Find(const std::string& name) {
    for (const TorchTensor& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << "no " << name;
    return tensors_.at(0);
  }
  std::vector<TorchTensor> tensors_;
};

TEST_F(TorchLayout, ConvolutionsAreOutInHeightWidth) {
  Export(
      R"({"input": {"shape": [3, 3, 2]}, "loss": "meanSquaredError", "layers": [{"name": "c", "conv2d": {"filters": 3, "kernelSize": [1, 2]}}]})");
  const TorchTensor& weight = Find("c.weight");
  EXPECT_EQ(weight.shape, Shape({3, 2, 1, 2}));
  // Ours counts [1, 2 columns, 2 in, 3 out].
  EXPECT_THAT(weight.values, ElementsAre(0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11));
  EXPECT_THAT(Find("c.bias").values, ElementsAre(0, 1, 2));
}

TEST_F(TorchLayout, DenseIsOutIn) {
  Export(R"({"input": {"shape": [3]}, "loss": "meanSquaredError", "layers": [{"name": "d", "dense": {"units": 2}}]})");
  EXPECT_EQ(Find("d.weight").shape, Shape({2, 3}));
  EXPECT_THAT(Find("d.weight").values, ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST_F(TorchLayout, BehindAFlattenChannelsComeFirst) {
  Export(R"({"input": {"shape": [1, 2, 2]}, "loss": "meanSquaredError",
             "layers": ["flatten", {"name": "n", "batchNormalization": {}}, {"name": "d", "dense": {"units": 1}}]})");
  // Ours: (column 0: channels 0, 1), (column 1: channels 0, 1).
  EXPECT_THAT(Find("d.weight").values, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(Find("n.running_var").values, ElementsAre(0, 2, 1, 3));
}

TEST_F(TorchLayout, GatesAreInPyTorchsOrder) {
  Export(R"({"input": {"shape": [4, 1]}, "loss": "meanSquaredError", "layers": [{"name": "g", "gru": {"units": 1}}]})");
  EXPECT_THAT(Find("g.weight_ih_l0").values, ElementsAre(1, 0, 2));
  EXPECT_THAT(Find("g.bias_ih_l0").values, ElementsAre(1, 0, 2));
  EXPECT_THAT(Find("g.bias_hh_l0").values, ElementsAre(4, 3, 5));
  Export(
      R"({"input": {"shape": [4, 1]}, "loss": "meanSquaredError", "layers": [{"name": "l", "bidirectional": {"layer": {"lstm": {"units": 1}}}}]})");
  EXPECT_THAT(Find("l.weight_hh_l0_reverse").values, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(Find("l.weight_hh_l0").shape, Shape({4, 1}));
  EXPECT_THAT(Find("l.bias_hh_l0").values, ElementsAre(0, 0, 0, 0));
}

TEST_F(TorchLayout, EveryPresetIsExportedWhole) {
  for (const char* preset : {"linear", "lenet5", "mnistCnn", "resnet56v2", "ptbLstm"}) {
    Export(std::string(R"({"preset": ")") + preset + "\"}");
    std::set<std::string> names;
    for (const TorchTensor& tensor : tensors_) EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    EXPECT_GE(names.size(), 2);
  }
}

TEST_F(TorchLayout, ASumOfUnlikeOrdersIsRefused) {
  const ModelSpec spec = ParsedSpec(R"({"input": {"shape": [2, 2, 2]}, "loss": "meanSquaredError", "layers": [{"name": "f", "flatten": {}},
      {"name": "d", "dense": {"units": 8}}, {"name": "s", "inputs": ["f", "d"], "add": {}}, {"dense": {"units": 1}}]})");
  EXPECT_THAT(std::string(TorchTensorsOf(spec, Counted(spec)).status().message()),
              HasSubstr("layer 's' adds a flattened image to other features"));
}

}  // namespace
}  // namespace trainyard::engine
