#include "trainer/model/presets.h"

#include <array>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr Integers kExtents{.min = 1, .max = 65536};

json Conv(std::string_view name, int filters, int kernel, const char* activation) {
  return {{"name", name}, {"conv2d", {{"filters", filters}, {"kernelSize", kernel}, {"activation", activation}}}};
}
json MaxPool(std::string_view name) { return {{"name", name}, {"maxPool2d", {{"poolSize", 2}, {"strides", 2}}}}; }
json Dense(std::string_view name, int64_t units, const char* activation) {
  return {{"name", name}, {"dense", {{"units", units}, {"activation", activation}}}};
}
json Dropout(std::string_view name, double rate) { return {{"name", name}, {"dropout", {{"rate", rate}}}}; }

json Classifier(FieldReader& options, std::vector<int64_t> shape, const auto& layers) {
  if (options.Get("inputShape") != nullptr) shape = options.IntegerList("inputShape", kExtents, 3, 3);
  const int64_t classes = options.Integer("classes", {.min = 2, .max = 65536}, 10);
  return {{"input", {{"shape", shape}}}, {"layers", layers(classes)}, {"loss", "softmaxCrossEntropy"}};
}

json Linear(FieldReader& options) {
  const int64_t inputs = options.Integer("inputs", kExtents, 10);
  const int64_t outputs = options.Integer("outputs", kExtents, 1);
  return {{"input", {{"shape", {inputs}}}}, {"layers", {Dense("dense", outputs, "linear")}}, {"loss", "meanSquaredError"}};
}

json LeNet5(FieldReader& options) {
  return Classifier(options, {28, 28, 1}, [](int64_t classes) -> json {
    return {Conv("conv1", 20, 5, "tanh"),
            MaxPool("pool1"),
            Conv("conv2", 50, 5, "tanh"),
            MaxPool("pool2"),
            "flatten",
            Dense("dense1", 500, "tanh"),
            Dense("dense2", classes, "linear")};
  });
}

json MnistCnn(FieldReader& options) {
  return Classifier(options, {28, 28, 1}, [](int64_t classes) -> json {
    return {Conv("conv1", 32, 3, "relu"),
            Conv("conv2", 64, 3, "relu"),
            MaxPool("pool"),
            Dropout("dropout1", 0.25),
            "flatten",
            Dense("dense1", 128, "relu"),
            Dropout("dropout2", 0.5),
            Dense("dense2", classes, "linear")};
  });
}

// Pre-activation residual network of three stages of bottleneck blocks (He et al. 2016, "Identity
// Mappings in Deep Residual Networks"). Widths, penalties and start values are those of Keras'
// example cifar10_resnet, version 2.
class ResNetV2 {
 public:
  explicit ResNetV2(double l2) : l2_(l2) {}

  json Layers(int blocks, int64_t classes) {
    Conv("stem", 16, 3, 1);
    std::string x = NormAndRelu("stem_norm");
    int width = 16;
    for (int stage = 0; stage < 3; ++stage) {
      const int outputs = stage == 0 ? width * 4 : width * 2;
      for (int block = 0; block < blocks; ++block) {
        const std::string name = "stage" + std::to_string(stage + 1) + "_block" + std::to_string(block + 1);
        const int stride = stage > 0 && block == 0 ? 2 : 1;
        // The stem's output is normalised and activated already.
        if (stage > 0 || block > 0) NormAndRelu(name + "_norm1", x);
        Conv(name + "_conv1", width, 1, stride);
        NormAndRelu(name + "_norm2");
        Conv(name + "_conv2", width, 3, 1);
        NormAndRelu(name + "_norm3");
        const std::string y = Conv(name + "_conv3", outputs, 1, 1);
        if (block == 0) x = Conv(name + "_shortcut", outputs, 1, stride, x);
        layers_.push_back({{"name", name}, {"inputs", {x, y}}, {"add", json::object()}});
        x = name;
      }
      width = outputs;
    }
    NormAndRelu("norm");
    layers_.push_back("globalAveragePool2d");
    layers_.push_back({{"name", "dense"}, {"dense", {{"units", classes}, {"kernelInitializer", "heNormal"}}}});
    return layers_;
  }

 private:
  // Each returns the layer's name; without `input` it reads the layer before.
  std::string Conv(const std::string& name, int filters, int kernel, int stride, const std::string& input = "") {
    json options = {
        {"filters", filters}, {"kernelSize", kernel}, {"strides", stride}, {"padding", "same"}, {"kernelInitializer", "heNormal"}};
    if (l2_ > 0) options["kernelRegularizer"] = {{"l2", l2_}};
    return Push({{"name", name}, {"conv2d", options}}, input);
  }
  std::string NormAndRelu(const std::string& name, const std::string& input = "") {
    Push({{"name", name}, {"batchNormalization", json::object()}}, input);
    return Push({{"name", name + "_relu"}, {"activation", {{"function", "relu"}}}}, "");
  }
  std::string Push(json layer, const std::string& input) {
    if (!input.empty()) layer["inputs"] = {input};
    layers_.push_back(layer);
    return layer["name"];
  }

  const double l2_;
  json layers_ = json::array();
};

json ResNet56V2(FieldReader& options) {
  constexpr int kBlocks = 6;  // of a stage: 9 * 6 + 2 = 56 layers
  const double l2 = options.Number("l2", {.min = 0, .max = 1e6}, 1e-4);
  return Classifier(options, {32, 32, 3}, [&](int64_t classes) { return ResNetV2(l2).Layers(kBlocks, classes); });
}

// The recurrent network of the PTB language model (Zaremba, Sutskever, Vinyals 2014): dropout where
// values go up, never along time.
json PtbLstm(FieldReader& options) {
  const int64_t vocabulary = options.Integer("vocabulary", {.min = 2, .max = 1 << 24}, 10000);
  const int64_t embedding = options.Integer("embedding", kExtents, 200);
  const int64_t units = options.Integer("units", kExtents, 200);
  const int64_t layers = options.Integer("numLayers", {.min = 1, .max = 64}, 2);
  const int64_t steps = options.Integer("steps", kExtents, 30);
  const double dropout = options.Number("dropout", {.min = 0, .max = 1, .below = true}, 0.0);
  json list = {{{"name", "embedding"}, {"embedding", {{"inputDim", vocabulary}, {"outputDim", embedding}}}}};
  const auto drop = [&](const std::string& name) {
    if (dropout > 0) list.push_back(Dropout(name, dropout));
  };
  for (int64_t layer = 1; layer <= layers; ++layer) {
    const std::string number = std::to_string(layer);
    drop("dropout" + number);
    list.push_back({{"name", "lstm" + number}, {"lstm", {{"units", units}, {"returnSequences", true}, {"stateful", true}}}});
  }
  drop("dropout" + std::to_string(layers + 1));
  list.push_back(Dense("dense", vocabulary, "linear"));
  return {{"input", {{"shape", {steps}}, {"vocabulary", vocabulary}}}, {"layers", list}, {"loss", "softmaxCrossEntropy"}};
}

struct Preset {
  std::string_view name;
  json (*expand)(FieldReader&);
};
constexpr std::array kPresets{Preset{"linear", Linear}, Preset{"lenet5", LeNet5}, Preset{"mnistCnn", MnistCnn},
                              Preset{"resnet56v2", ResNet56V2}, Preset{"ptbLstm", PtbLstm}};

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

json ExpandPreset(std::string_view name, FieldReader& options) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset.expand(options);
  }
  TY_CHECK(false);
}

}  // namespace trainyard::engine
