#include "operator/api/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/api/field_words.h"
#include "operator/api/json_read.h"
#include "operator/api/meta.h"
#include "operator/api/yaml.h"
#include "operator/base/check.h"
#include "trainyard_crd.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr size_t kMaxErrors = 20;
constexpr int kMaxDepth = 64;

std::vector<std::string> NamesOf(const json& properties) {
  std::vector<std::string> names;
  for (const auto& [name, schema] : properties.items()) names.push_back(name);
  return names;
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
  // `errors`: null for a text of which only the unknown fields matter.
  Checker(std::vector<FieldError>* errors, std::vector<FieldError>& unknown) : errors_(errors), unknown_(unknown) {}

  void Check(const json& value, const json& schema, const std::string& path, int depth) {
    if (depth > kMaxDepth || value.is_null()) return;
    const std::string type = json_read::String(schema, "type");
    if (!type.empty() && !HasType(value, type)) {
      Add(path, fmt::format("found {}, expected {} {}", Shown(value), type == "array" || type == "object" || type == "integer" ? "an" : "a",
                            type));
      return;
    }
    if (errors_ != nullptr) CheckValue(value, schema, path);
    if (value.is_object()) CheckObject(value, schema, path, depth);
    if (value.is_array() && schema.contains("items")) {
      for (size_t i = 0; i < value.size(); ++i) Check(value[i], schema["items"], fmt::format("{}[{}]", path, i), depth + 1);
    }
  }

 private:
  void Add(const std::string& path, std::string message) {
    if (errors_ != nullptr && errors_->size() < kMaxErrors) errors_->push_back({path, std::move(message)});
  }

  void CheckObject(const json& value, const json& schema, const std::string& path, int depth) {
    const json* properties = json_read::Find(schema, "properties");
    if (properties == nullptr) return;
    const bool open = json_read::Bool(schema, "x-kubernetes-preserve-unknown-fields");
    for (const auto& [name, member] : value.items()) {
      const auto known = properties->find(name);
      if (known != properties->end()) {
        Check(member, *known, path + "." + name, depth + 1);
      } else if (!open && unknown_.size() < kMaxErrors) {
        unknown_.push_back({path + "." + name, UnknownField(name, NamesOf(*properties))});
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

  std::vector<FieldError>* errors_;
  std::vector<FieldError>& unknown_;
};

}  // namespace

const json& TrainingJobSpecSchema() {
  static const json schema = [] {
    const json crd = YamlToJson(kTrainingJobCrd).value();
    for (const json& version : crd["spec"]["versions"]) {
      if (version["name"] == kVersion) return version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    }
    return json();
  }();
  TY_CHECK(schema.is_object());  // crds/trainingjob.yaml has the version that this program speaks
  return schema;
}

void CheckAgainstSchema(const json& value, const json& schema, std::string_view path, std::vector<FieldError>& errors,
                        std::vector<FieldError>& unknown) {
  Checker(&errors, unknown).Check(value, schema, std::string(path), 0);
}

void FindUnknownFields(const json& value, const json& schema, std::string_view path, std::vector<FieldError>& unknown) {
  Checker(nullptr, unknown).Check(value, schema, std::string(path), 0);
}

}  // namespace trainyard::control
