#include "operator/api/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>

namespace trainyard::control {
namespace {

using nlohmann::json;

json ScalarToJson(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text == "true") return true;
  if (text == "false") return false;
  int64_t integer = 0;
  if (YAML::convert<int64_t>::decode(node, integer)) return integer;
  double number = 0;
  if (YAML::convert<double>::decode(node, number)) return number;
  return text;
}

json NodeToJson(const YAML::Node& node) {
  if (node.IsMap()) {
    json object = json::object();
    for (const auto& entry : node) object[entry.first.Scalar()] = NodeToJson(entry.second);
    return object;
  }
  if (node.IsSequence()) {
    json array = json::array();
    for (const auto& item : node) array.push_back(NodeToJson(item));
    return array;
  }
  return node.IsScalar() ? ScalarToJson(node) : json();
}

}  // namespace

absl::StatusOr<json> YamlToJson(const std::string& text) {
  try {
    return NodeToJson(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(fmt::format("line {}, column {}: {}", error.mark.line + 1, error.mark.column + 1, error.msg));
  }
}

}  // namespace trainyard::control
