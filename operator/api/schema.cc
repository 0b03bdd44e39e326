#include "operator/api/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/api/json_read.h"
#include "operator/api/text.h"
#include "operator/api/yaml.h"
#include "trainyard_crd.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr size_t kMaxErrors = 20;
constexpr int kMaxDepth = 64;

std::string Shown(const json& value) { return Head(value.dump(-1, ' ', false, json::error_handler_t::replace), 80); }

// The smallest number of single-character edits from one name to the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string UnknownFieldMessage(const std::string& name, const json& properties) {
  std::string best;
  size_t distance = 3;
  for (const auto& [known, schema] : properties.items()) {
    if (const size_t d = EditDistance(std::string_view(name).substr(0, 64), known); d < distance) {
      distance = d;
      best = known;
    }
  }
  return best.empty() ? "unknown field; remove it (kubectl explain lists the known ones)"
                      : fmt::format("unknown field; did you mean \"{}\"?", best);
}

bool HasType(const json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "number") return value.is_number();
  return value.is_number_integer() || (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
}

// Walks value and schema together.
class Checker {
 public:
  Checker(bool unknown_fields_only, std::vector<FieldError>& errors) : unknown_only_(unknown_fields_only), errors_(errors) {}

  void Check(const json& value, const json& schema, const std::string& path, int depth) {
    if (errors_.size() >= kMaxErrors || depth > kMaxDepth || value.is_null()) return;
    const std::string type = json_read::String(schema, "type");
    if (!type.empty() && !HasType(value, type)) {
      Add(path, fmt::format("found {}, expected {} {}", Shown(value), type == "array" || type == "object" || type == "integer" ? "an" : "a",
                            type));
      return;
    }
    if (!unknown_only_) CheckValue(value, schema, path);
    if (value.is_object()) CheckObject(value, schema, path, depth);
    if (value.is_array() && schema.contains("items")) {
      for (size_t i = 0; i < value.size(); ++i) Check(value[i], schema["items"], fmt::format("{}[{}]", path, i), depth + 1);
    }
  }

 private:
  void Add(const std::string& path, std::string message) {
    if (errors_.size() < kMaxErrors) errors_.push_back({path, std::move(message)});
  }

  void CheckObject(const json& value, const json& schema, const std::string& path, int depth) {
    const json* properties = json_read::Find(schema, "properties");
    if (properties == nullptr) return;
    const bool open = json_read::Bool(schema, "x-kubernetes-preserve-unknown-fields");
    for (const auto& [name, member] : value.items()) {
      const auto known = properties->find(name);
      if (known != properties->end()) {
        Check(member, *known, path + "." + name, depth + 1);
      } else if (!open) {
        Add(path + "." + name, UnknownFieldMessage(name, *properties));
      }
    }
  }

  void CheckValue(const json& value, const json& schema, const std::string& path) {
    if (const json* words = json_read::Find(schema, "enum");
        words != nullptr && std::find(words->begin(), words->end(), value) == words->end()) {
      Add(path, fmt::format("found {}, expected one of {}", Shown(value), words->dump()));
    }
    if (!value.is_number()) return;
    const std::optional<double> minimum = json_read::Number(schema, "minimum");
    const std::optional<double> maximum = json_read::Number(schema, "maximum");
    if (minimum && value.get<double>() < *minimum) Add(path, fmt::format("found {}, expected at least {}", Shown(value), *minimum));
    if (maximum && value.get<double>() > *maximum) Add(path, fmt::format("found {}, expected at most {}", Shown(value), *maximum));
  }

  const bool unknown_only_;
  std::vector<FieldError>& errors_;
};

}  // namespace

const json& TrainingJobSpecSchema() {
  static const json schema = YamlToJson(kTrainingJobCrd).value()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
  return schema;
}

void CheckAgainstSchema(const json& value, const json& schema, std::string_view path, std::vector<FieldError>& errors) {
  Checker(false, errors).Check(value, schema, std::string(path), 0);
}

void FindUnknownFields(const json& value, const json& schema, std::string_view path, std::vector<FieldError>& errors) {
  Checker(true, errors).Check(value, schema, std::string(path), 0);
}

}  // namespace trainyard::control
