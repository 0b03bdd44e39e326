#include "trainer/config/job_config_override.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"
#include "trainer/config/field_reader.h"
#include "trainer/config/job_config_text.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using Step = std::variant<std::string, size_t>;  // a field's name or a place in a list

absl::Status Refuse(std::string_view text, std::string_view problem) {
  return absl::InvalidArgumentError(fmt::format("--set {}: {}", text, problem));
}

absl::StatusOr<std::vector<Step>> ParsePath(std::string_view path, std::string_view text) {
  std::vector<Step> steps;
  while (!path.empty()) {
    if (path.starts_with('[')) {
      const size_t end = path.find(']');
      size_t place = 0;
      const char* last = path.data() + std::min(end, path.size());
      const auto [parsed, error] = std::from_chars(path.data() + 1, last, place);
      if (end == std::string_view::npos || error != std::errc() || parsed != last) {
        return Refuse(text, "expected a whole number between [ and ]");
      }
      steps.emplace_back(place);
      path.remove_prefix(end + 1);
      if (path.starts_with('.')) path.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(path.find_first_of(".["), path.size());
    if (end == 0) return Refuse(text, "found an empty name in the path");
    steps.emplace_back(std::string(path.substr(0, end)));
    path.remove_prefix(end);
    if (path.starts_with('.')) {
      path.remove_prefix(1);
      if (path.empty()) return Refuse(text, "the path ends with a dot");
    }
  }
  if (steps.empty() || !std::holds_alternative<std::string>(steps[0])) return Refuse(text, "expected a field's name at its start");
  if (steps.size() > kMostJsonLevels) return Refuse(text, fmt::format("the path is longer than {} levels", kMostJsonLevels));
  const auto& first = std::get<std::string>(steps[0]);
  constexpr std::array<std::string_view, 5> kOutermost{"apiVersion", "kind", "metadata", "spec", "status"};
  if (std::ranges::find(kOutermost, first) == kOutermost.end()) steps.emplace(steps.begin(), "spec");
  return steps;
}

// Where the path leads inside `node`, made if it is absent.
absl::StatusOr<json*> Descend(json& node, const Step& step, std::string_view text) {
  if (const auto* name = std::get_if<std::string>(&step)) {
    if (node.is_null()) node = json::object();
    if (!node.is_object()) return Refuse(text, fmt::format("\"{}\" is looked for in {}, which has no fields", *name, Found(node)));
    return &node[*name];
  }
  const size_t place = std::get<size_t>(step);
  if (node.is_null()) node = json::array();
  if (!node.is_array()) return Refuse(text, fmt::format("[{}] is looked for in {}, which is not a list", place, Found(node)));
  if (place > node.size()) return Refuse(text, fmt::format("[{}] is beyond the end of a list of {}", place, node.size()));
  if (place == node.size()) node.push_back(nullptr);
  return &node[place];
}

// Whether `text` gives the field of that path a value.
bool Gives(std::string_view text, const std::vector<Step>& path) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return false;
  const absl::StatusOr<std::vector<Step>> steps = ParsePath(text.substr(0, equals), text);
  if (!steps.ok() || *steps != path) return false;
  const absl::StatusOr<JobText> value = ReadYaml(text.substr(equals + 1), "");
  return value.ok() && !value->value.is_null();
}

}  // namespace

absl::Status ApplyOverride(std::string_view text, json& job) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return Refuse(text, "expected path=value");
  TY_ASSIGN_OR_RETURN(const std::vector<Step> steps, ParsePath(text.substr(0, equals), text));
  TY_ASSIGN_OR_RETURN(JobText value, ReadYaml(text.substr(equals + 1), fmt::format("--set {}", text)));
  json changed = job;
  json* node = &changed;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    TY_ASSIGN_OR_RETURN(node, Descend(*node, steps[i], text));
  }
  TY_ASSIGN_OR_RETURN(json * target, Descend(*node, steps.back(), text));
  if (!value.value.is_null()) {
    *target = std::move(value.value);
  } else if (const auto* name = std::get_if<std::string>(&steps.back())) {
    node->erase(*name);
  } else {
    node->erase(std::get<size_t>(steps.back()));
  }
  job = std::move(changed);
  return absl::OkStatus();
}

absl::Status ApplyOverrides(std::span<const std::string> texts, json& job) {
  const std::vector<Step> epochs = {"spec", "training", "epochs"};
  const std::vector<Step> steps = {"spec", "training", "steps"};
  const auto given = [&](const std::vector<Step>& path) {
    return std::ranges::any_of(texts, [&](const std::string& text) { return Gives(text, path); });
  };
  const auto training = nlohmann::json::json_pointer("/spec/training");
  if (given(epochs) != given(steps) && job.contains(training) && job[training].is_object()) {
    job[training].erase(given(epochs) ? "steps" : "epochs");
  }
  std::string errors;
  for (const std::string& text : texts) {
    const absl::Status applied = ApplyOverride(text, job);
    if (!applied.ok()) errors += fmt::format("{}{}", errors.empty() ? "" : "\n", std::string(applied.message()));
  }
  return errors.empty() ? absl::OkStatus() : absl::InvalidArgumentError(errors);
}

}  // namespace trainyard::engine
