#include "trainer/page/compare_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "trainer/base/printable.h"
#include "trainer/report/number_text.h"

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;

constexpr size_t kWidest = 40;  // of a cell on a terminal

std::vector<std::string> PartsOf(const std::string& dir) {
  std::vector<std::string> parts;
  const std::filesystem::path whole = std::filesystem::path(dir + "/").lexically_normal();
  for (const std::filesystem::path& part : whole.parent_path()) parts.push_back(part.string());
  return parts;
}

// Without the folders that all of them are in.
std::vector<std::string> NamesOf(std::span<const std::string> dirs) {
  std::vector<std::vector<std::string>> parts;
  for (const std::string& dir : dirs) parts.push_back(PartsOf(dir));
  size_t common = 0;
  const auto have_it = [&](const std::vector<std::string>& path) { return common + 1 < path.size() && path[common] == parts[0][common]; };
  while (std::ranges::all_of(parts, have_it)) ++common;
  std::vector<std::string> names;
  for (const std::vector<std::string>& path : parts) {
    std::string name;
    for (size_t i = common; i < path.size(); ++i) name += (name.empty() ? "" : "/") + path[i];
    names.push_back(std::move(name));
  }
  return names;
}

const ordered_json& At(const ordered_json& object, const char* name) {
  static const ordered_json kNothing;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : kNothing;
}

// Four digits at least.
std::string ShortNumber(double value) {
  if (!std::isfinite(value)) return NumberText(value);
  const double size = std::abs(value);
  const bool whole = size < 1e9 && (size >= 1000 || value == std::round(value));
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string TextOf(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return ShortNumber(value.get<double>());
  return "–";
}

// Rows by name, in the order in which the runs bring them up.
class Rows {
 public:
  explicit Rows(size_t runs) : runs_(runs) {}

  void Set(const std::string& name, size_t run, std::string value) {
    auto row = std::ranges::find(rows_, name, &ComparedValue::name);
    if (row == rows_.end()) row = rows_.insert(row, {.name = name, .values = std::vector<std::string>(runs_, "–")});
    row->values[run] = std::move(value);
  }
  std::vector<ComparedValue> All() const { return rows_; }
  std::vector<ComparedValue> Differing() const {
    std::vector<ComparedValue> differing;
    const auto differs = [](const ComparedValue& row) { return std::set(row.values.begin(), row.values.end()).size() > 1; };
    std::ranges::copy_if(rows_, std::back_inserter(differing), differs);
    return differing;
  }

 private:
  const size_t runs_;
  std::vector<ComparedValue> rows_;
};

void AddSettings(const ordered_json& run, size_t place, Rows& rows) {
  for (const ordered_json& line : At(run, "settings")) rows.Set(line.at(0).get<std::string>(), place, line.at(1).get<std::string>());
  const ordered_json& report = At(run, "report");
  for (const char* name : {"workers", "ps", "version", "cpu"}) rows.Set(name, place, TextOf(At(report, name)));
}

void AddResults(const ordered_json& run, size_t place, Rows& rows) {
  const ordered_json& report = At(run, "report");
  rows.Set("state", place, TextOf(At(report, "state")));
  if (const ordered_json& scores = At(report, "eval"); scores.is_object()) {
    for (const auto& [name, value] : scores.items()) rows.Set(name + " (evaluation)", place, TextOf(value));
  }
  rows.Set("training loss", place, TextOf(At(report, "lastLoss")));
  rows.Set("steps", place, TextOf(At(report, "steps")));
  rows.Set("seconds", place, TextOf(At(report, "seconds")));
  const ordered_json& speed = At(report, "unitsPerSecond");
  const bool has_speed = speed.is_number() && speed > 0;  // a launch that trained no step has none
  if (const ordered_json& unit = At(report, "unit"); unit.is_string() && has_speed)
    rows.Set(unit.get<std::string>() + "/s", place, TextOf(speed));
  if (const ordered_json& best = At(report, "best"); best.is_object())
    rows.Set("best " + TextOf(At(best, "metric")), place,
             fmt::format("{} at step {}", TextOf(At(best, "value")), TextOf(At(best, "step"))));
}

// Characters of UTF-8, as a terminal counts most of them.
size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string CellText(std::string text) {
  text = Printable(std::move(text));
  if (WidthOf(text) <= kWidest) return text;
  size_t end = 0;
  for (size_t width = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && ++width == kWidest) break;
  }
  return text.substr(0, end) + "…";
}

std::string TableText(const std::string& title, const std::vector<std::string>& names, const std::vector<ComparedValue>& rows) {
  std::vector<std::vector<std::string>> cells = {{title}};
  for (const std::string& name : names) cells[0].push_back(CellText(name));
  for (const ComparedValue& row : rows) {
    std::vector<std::string>& line = cells.emplace_back(std::vector<std::string>{CellText(row.name)});
    for (const std::string& value : row.values) line.push_back(CellText(value));
  }
  std::vector<size_t> widths(names.size() + 1, 0);
  for (const auto& line : cells) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], WidthOf(line[i]));
  }
  std::string text;
  for (const auto& line : cells) {
    for (size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      text += i + 1 < line.size() ? std::string(widths[i] - WidthOf(line[i]) + 2, ' ') : "\n";
    }
  }
  return text;
}

ordered_json RowsJson(const std::vector<ComparedValue>& rows) {
  ordered_json list = ordered_json::array();
  for (const ComparedValue& row : rows) list.push_back({{"name", row.name}, {"values", row.values}});
  return list;
}

}  // namespace

Comparison Compare(std::span<const std::string> dirs, std::span<const ordered_json> runs) {
  Rows settings(runs.size());
  Rows results(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    AddSettings(runs[i], i, settings);
    AddResults(runs[i], i, results);
  }
  return {.names = NamesOf(dirs), .settings = settings.Differing(), .results = results.All()};
}

std::string ComparisonText(const Comparison& comparison) {
  const std::string settings =
      comparison.settings.empty() ? "The job files say the same.\n" : TableText("what differs", comparison.names, comparison.settings);
  return settings + "\n" + TableText("result", comparison.names, comparison.results);
}

ordered_json ComparisonPage(const Comparison& comparison, std::span<const ordered_json> runs) {
  ordered_json page = {
      {"runs", ordered_json::array()},
      {"comparison",
       {{"names", comparison.names}, {"settings", RowsJson(comparison.settings)}, {"results", RowsJson(comparison.results)}}}};
  for (const ordered_json& run : runs) {
    ordered_json& shown = page["runs"].emplace_back(ordered_json::object());
    for (const char* name : {"name", "dir", "curves", "evaluations"}) {
      if (run.contains(name)) shown[name] = run[name];
    }
    if (const ordered_json& unit = At(At(run, "report"), "unit"); unit.is_string()) shown["unit"] = unit;
  }
  return page;
}

}  // namespace trainyard::engine
