#include "trainer/checkpoint/same_meaning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "trainer/base/log.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/printable.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr size_t kShownBytes = 60;

json Parsed(const std::string& text) {
  json value = ParseJson(text);
  return value.is_object() ? value : json::object();
}

std::vector<std::string> TextsIn(const json& object, const char* name) {
  std::vector<std::string> texts;
  const auto list = object.find(name);
  if (list == object.end() || !list->is_array()) return texts;
  for (const json& text : *list) texts.push_back(text.is_string() ? text.get<std::string>() : text.dump());
  return texts;
}

std::string Named(const std::vector<std::string>& texts, size_t at) {
  return at < texts.size() ? fmt::format("\"{}\"", Printable(texts[at].substr(0, kShownBytes))) : "nothing";
}

// `what`: "class", or "the category … of column …".
absl::Status CheckTexts(const std::string& path, const std::string& what, const std::vector<std::string>& before,
                        const std::vector<std::string>& now) {
  if (before == now) return absl::OkStatus();
  const size_t at = std::ranges::mismatch(before, now).in1 - before.begin();
  return absl::FailedPreconditionError(fmt::format(
      "checkpoint {} was trained with other data: {} {} is {} there and {} in this job. Use another output folder, or the data of the "
      "checkpoint",
      path, what, at, Named(before, at), Named(now, at)));
}

double NumberIn(const json& column, const char* name) {
  const auto number = column.find(name);
  return number != column.end() && number->is_number() ? number->get<double>() : 0;
}

// As the model sees it, both the same.
bool ScaledAlike(const json& before, const json& now) {
  const double deviation = NumberIn(before, "std");
  return std::abs(NumberIn(before, "mean") - NumberIn(now, "mean")) <= 1e-6 * deviation &&
         std::abs(deviation - NumberIn(now, "std")) <= 1e-6 * deviation;
}

absl::Status CheckColumns(const std::string& path, const json& before, const json& now) {
  std::vector<std::string> names_before;
  std::vector<std::string> names_now;
  for (const json& column : before) names_before.push_back(column.value("name", json()).dump());
  for (const json& column : now) names_now.push_back(column.value("name", json()).dump());
  if (absl::Status status = CheckTexts(path, "column", names_before, names_now); !status.ok()) return status;
  for (size_t i = 0; i < before.size(); ++i) {
    const absl::Status same = CheckTexts(path, fmt::format("of column {}, category", names_before[i]), TextsIn(before[i], "categories"),
                                         TextsIn(now[i], "categories"));
    if (!same.ok()) return same;
    if (ScaledAlike(before[i], now[i])) continue;
    LogWarning("column {} is scaled otherwise than in checkpoint {}: its mean was {:.6g} and its std {:.6g}, they are {:.6g} and {:.6g}",
               names_before[i], path, NumberIn(before[i], "mean"), NumberIn(before[i], "std"), NumberIn(now[i], "mean"),
               NumberIn(now[i], "std"));
  }
  return absl::OkStatus();
}

// A label that was standardised and is not, or the other way round, is another label.
absl::Status CheckLabel(const std::string& path, const json& before, const json& now) {
  if (before.is_object() != now.is_object()) {
    return absl::FailedPreconditionError(fmt::format(
        "checkpoint {} was trained with another label: it is {} there and {} in this job (standardizeLabel). Use another output "
        "folder, or the label of the checkpoint",
        path, before.is_object() ? "standardised" : "as the files have it", now.is_object() ? "standardised" : "not"));
  }
  if (!now.is_object() || ScaledAlike(before, now)) return absl::OkStatus();
  LogWarning("the label is scaled otherwise than in checkpoint {}: its mean was {:.6g} and its std {:.6g}, they are {:.6g} and {:.6g}",
             path, NumberIn(before, "mean"), NumberIn(before, "std"), NumberIn(now, "mean"), NumberIn(now, "std"));
  return absl::OkStatus();
}

// Of other formats the files have the numbers, and names may change.
bool NumbersItsClasses(const json& description) {
  const std::string format = description.value("/training/data/format"_json_pointer, "");
  return format == "images" || format == "csv";
}

bool AllObjects(const json& list) {
  return list.is_array() && std::ranges::all_of(list, [](const json& item) { return item.is_object(); });
}

}  // namespace

absl::Status CheckSameMeaning(const Checkpoint& checkpoint, const std::string& description) {
  const json before = Parsed(checkpoint.info().description);
  const json now = Parsed(description);
  const std::vector<std::string> classes_before = TextsIn(before, "classes");
  const std::vector<std::string> classes = TextsIn(now, "classes");
  if (NumbersItsClasses(now) && !classes_before.empty() && !classes.empty()) {
    const absl::Status same = CheckTexts(checkpoint.path(), "class", classes_before, classes);
    if (!same.ok()) return same;
  }
  const json columns_before = before.value("columns", json());
  const json columns = now.value("columns", json());
  if (!AllObjects(columns_before) || !AllObjects(columns)) return absl::OkStatus();
  if (absl::Status status = CheckColumns(checkpoint.path(), columns_before, columns); !status.ok()) return status;
  return CheckLabel(checkpoint.path(), before.value("label", json()), now.value("label", json()));
}

}  // namespace trainyard::engine
