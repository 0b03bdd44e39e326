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

json Classifier(FieldReader& options, const auto& layers) {
  std::vector<int64_t> shape{28, 28, 1};
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
  return Classifier(options, [](int64_t classes) -> json {
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
  return Classifier(options, [](int64_t classes) -> json {
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

struct Preset {
  std::string_view name;
  json (*expand)(FieldReader&);
};
constexpr std::array kPresets{Preset{"linear", Linear}, Preset{"lenet5", LeNet5}, Preset{"mnistCnn", MnistCnn}};

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
