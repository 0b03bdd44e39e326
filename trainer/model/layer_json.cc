#include "trainer/model/layer_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "trainer/base/nearest_name.h"
#include "trainer/config/field_reader.h"
#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (const LayerKind& kind : LayerKinds()) names.emplace_back(kind.name);
  return names;
}

std::string UnknownKind(const std::string& name) {
  const std::vector<std::string> names = KindNames();
  const std::string_view nearest = NearestName(name, names);
  if (!nearest.empty()) return fmt::format("unknown layer; did you mean \"{}\"?", nearest);
  return fmt::format("unknown layer; known: {}", fmt::join(names, ", "));
}

}  // namespace

std::string LayerReader::DefaultName(const std::string& kind) const {
  std::string name = kind;
  for (int count = 1; names_.contains(name); ++count) name = fmt::format("{}_{}", kind, count);
  return name;
}

void LayerReader::CheckName(const std::string& name, const std::string& path) {
  // Names that the graph uses for itself.
  static constexpr std::array<std::string_view, 8> kReserved{kInputName, "labels", "target",        "loss",
                                                             "correct",  "logits", "probabilities", "prediction"};
  const bool spelled = !name.empty() && name.size() <= 100 &&
                       std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; });
  if (!spelled) {
    errors_.Add(path, fmt::format("found {}, expected 1 to 100 letters, digits, '_', '-' and '.'", Found(json(name))));
  } else if (std::ranges::find(kReserved, name) != kReserved.end()) {
    errors_.Add(path, fmt::format("found \"{}\", a name that is kept for the network's own inputs and outputs; choose another", name));
  } else if (names_.contains(name)) {
    errors_.Add(path, fmt::format("found \"{}\" again; each layer needs a name of its own", name));
  }
}

LayerSpec LayerReader::Read(const json& entry, const std::string& path) {
  LayerSpec layer;
  layer.path = path;
  layer.inputs = {previous_};
  std::string kind_name;
  static const json kNoFields = json::object();
  const json* arguments = &kNoFields;
  if (entry.is_string()) {
    kind_name = entry.get<std::string>();
    if (FindLayerKind(kind_name) == nullptr) {
      errors_.Add(path, fmt::format("found {}: {}", Found(entry), UnknownKind(kind_name)));
      return layer;
    }
  } else if (entry.is_object()) {
    std::vector<std::string> kinds;
    for (const auto& [field, value] : entry.items()) {
      if (field == "name" || field == "inputs") continue;
      kinds.push_back(field);
      if (FindLayerKind(field) == nullptr) errors_.Add(fmt::format("{}.{}", path, field), UnknownKind(field));
    }
    if (kinds.size() != 1) {
      errors_.Add(path, fmt::format("found {} layer kinds{}{}, expected exactly one beside name and inputs", kinds.size(),
                                    kinds.empty() ? "" : ": ", fmt::join(kinds, ", ")));
      return layer;
    }
    kind_name = kinds[0];
    if (!entry[kind_name].is_null()) arguments = &entry[kind_name];
    layer.path = fmt::format("{}.{}", path, kind_name);
  } else {
    errors_.Add(path, fmt::format("found {}, expected a layer: a name such as flatten, or an object such as {{dense: {{units: 10}}}}",
                                  Found(entry)));
    return layer;
  }

  if (const LayerKind* kind = FindLayerKind(kind_name)) {
    FieldReader fields(*arguments, layer.path, errors_);
    layer.layer = kind->read(fields);
    fields.RefuseOthers();
  }
  layer.name = DefaultName(kind_name);
  if (entry.is_object()) {
    FieldReader fields(entry, path, errors_);
    if (fields.Get("name") != nullptr) {
      layer.name = fields.Text("name");
      CheckName(layer.name, path + ".name");
    }
    if (fields.Get("inputs") != nullptr) layer.inputs = fields.TextList("inputs");
    if (layer.inputs.empty()) fields.Error("inputs", "found no names, expected at least one");
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      if (layer.inputs[i] == kInputName || names_.contains(layer.inputs[i])) continue;
      fields.Error(fmt::format("inputs[{}]", i), fmt::format("found {}, expected \"{}\" or the name of a layer before this one",
                                                             Found(json(layer.inputs[i])), kInputName));
    }
  }
  names_.insert(layer.name);
  previous_ = layer.name;
  return layer;
}

}  // namespace trainyard::engine
