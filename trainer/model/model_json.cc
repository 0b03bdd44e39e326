#include "trainer/model/model_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "trainer/config/field_reader.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/layer_json.h"
#include "trainer/model/presets.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr size_t kMaxLayers = 1000;

void RefuseUnusedLayers(const ModelSpec& spec, FieldErrors& errors) {
  std::set<std::string_view> used;
  for (const LayerSpec& layer : spec.layers) used.insert(layer.inputs.begin(), layer.inputs.end());
  for (const LayerSpec& layer : spec.layers) {
    if (&layer == &spec.layers.back() || used.contains(layer.name)) continue;
    errors.Add(layer.path, fmt::format("nothing reads layer \"{}\"; name it in the inputs of a later layer, or remove it", layer.name));
  }
}

void ReadLayers(const json& layers, const std::string& path, ModelSpec& spec, FieldErrors& errors) {
  if (!layers.is_array() || layers.empty() || layers.size() > kMaxLayers) {
    errors.Add(path, fmt::format("found {}, expected a list of 1 to {} layers",
                                 layers.is_array() ? fmt::format("a list of {}", layers.size()) : Found(layers), kMaxLayers));
    return;
  }
  LayerReader reader(errors);
  for (size_t i = 0; i < layers.size(); ++i) spec.layers.push_back(reader.Read(layers[i], fmt::format("{}[{}]", path, i)));
}

void ReadCustom(FieldReader& fields, ModelSpec& spec, FieldErrors& errors) {
  if (const json* input = fields.Require("input", "an object such as {shape: [28, 28, 1]}")) {
    FieldReader input_fields(*input, fields.PathOf("input"), errors);
    spec.input_shape = Shape(input_fields.IntegerList("shape", {.min = 1, .max = 1 << 20}, 1, 4));
    spec.vocabulary = input_fields.Integer("vocabulary", {.min = 1, .max = 1 << 24}, 0);
    if (spec.vocabulary > 0 && spec.input_shape.rank() != 1) {
      input_fields.Error("shape", fmt::format("found {}, expected [steps]: with a vocabulary the input is one token for each step",
                                              spec.input_shape.ToString()));
    }
    input_fields.RefuseOthers();
  }
  if (const json* layers = fields.Require("layers", "a list of layers")) ReadLayers(*layers, fields.PathOf("layers"), spec, errors);
  spec.loss =
      fields.Choice<Loss>("loss", {{"softmaxCrossEntropy", Loss::kSoftmaxCrossEntropy}, {"meanSquaredError", Loss::kMeanSquaredError}});
}

}  // namespace

ModelSpec ParseModelSpec(const json& value, std::string_view path, FieldErrors& errors) {
  ModelSpec spec;
  spec.path = path;
  const size_t errors_before = errors.size();
  FieldReader fields(value, spec.path, errors);
  if (fields.Get("preset") == nullptr) {
    ReadCustom(fields, spec, errors);
    fields.RefuseOthers();
  } else {
    spec.name = fields.Text("preset");
    const std::vector<std::string> presets = PresetNames();
    if (std::ranges::find(presets, spec.name) == presets.end()) {
      fields.Error("preset", fmt::format("found {}, expected one of {}", Found(json(spec.name)), fmt::join(presets, ", ")));
      return spec;
    }
    const json expanded = ExpandPreset(spec.name, fields);
    fields.RefuseOthers();
    if (errors.size() > errors_before) return spec;
    FieldReader expanded_fields(expanded, spec.path, errors);
    ReadCustom(expanded_fields, spec, errors);
    for (LayerSpec& layer : spec.layers) layer.path = spec.path;
  }
  if (errors.size() > errors_before) return spec;
  RefuseUnusedLayers(spec, errors);
  if (errors.size() == errors_before) CheckModelShapes(spec, errors);
  return spec;
}

}  // namespace trainyard::engine
