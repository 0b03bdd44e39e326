#include "trainer/job/csv_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr int64_t kMostColumns = 1 << 16;
constexpr std::string_view kColumn = "a column's name in the header, or its number, counted from 0";

ColumnRef ReadColumn(FieldReader& fields, std::string_view name) {
  const json* value = fields.Require(name, kColumn);
  if (value == nullptr) return {};
  if (const auto number = AsInteger(*value, {.min = 0, .max = kMostColumns})) return {.name = std::to_string(*number), .number = *number};
  if (value->is_string() && !value->get_ref<const std::string&>().empty()) return {.name = value->get<std::string>()};
  fields.Error(name, fmt::format("found {}, expected {}", Found(*value), kColumn));
  return {};
}

MissingRule ReadMissing(FieldReader& fields, const MissingRule& fallback) {
  const json* value = fields.Get("missing");
  if (value == nullptr) return fallback;
  if (*value == "error") return {};
  if (*value == "mean") return {.kind = MissingRule::Kind::kMean, .value = {}};
  if (value->is_string() && !value->get_ref<const std::string&>().empty()) {
    return {.kind = MissingRule::Kind::kValue, .value = value->get<std::string>()};
  }
  if (value->is_number()) return {.kind = MissingRule::Kind::kValue, .value = value->dump()};
  fields.Error("missing", fmt::format("found {}, expected error, mean, or the value that stands for an empty cell", Found(*value)));
  return fallback;
}

ColumnType ReadType(FieldReader& fields, std::optional<ColumnType> fallback) {
  return fields.Choice<ColumnType>("type", {{"number", ColumnType::kNumber}, {"category", ColumnType::kCategory}}, fallback);
}

char ReadDelimiter(FieldReader& fields) {
  const std::string text = fields.Text("delimiter", ",");
  const bool one_byte = text.size() == 1 && static_cast<unsigned char>(text[0]) < 0x80;
  if (one_byte && text != "\"" && text != "\n" && text != "\r" && text != " ") return text[0];
  fields.Error("delimiter", fmt::format("found {}, expected one ASCII character such as \";\" or \"\\t\", but no blank, quote or line end",
                                        Found(json(text))));
  return ',';
}

}  // namespace

CsvOptions ParseCsvOptions(FieldReader& fields) {
  CsvOptions options;
  options.label = ReadColumn(fields, "label");
  options.missing = ReadMissing(fields, {});
  options.delimiter = ReadDelimiter(fields);
  options.decimal = fields.Choice<char>("decimal", {{"point", '.'}, {"comma", ','}}, '.');
  options.header = fields.Bool("header", true);
  options.standardize_label = fields.Bool("standardizeLabel", false);
  const json* columns = fields.Get("columns");
  if (columns == nullptr) return options;
  if (!columns->is_array() || columns->empty() || columns->size() > kMostColumns) {
    fields.Error("columns",
                 fmt::format("found {}, expected a list such as [{{name: age}}, {{name: colour, type: category}}]", Found(*columns)));
    return options;
  }
  std::set<std::string> names;
  for (size_t i = 0; i < columns->size(); ++i) {
    FieldReader column = fields.Inside(fmt::format("columns[{}]", i), (*columns)[i]);
    CsvColumn& read = options.columns.emplace_back();
    read.column = ReadColumn(column, "name");
    read.type = ReadType(column, read.type);
    read.missing = ReadMissing(column, options.missing);
    column.RefuseOthers();
    if (!names.insert(read.column.name).second) column.Error("name", "found again, expected each column once");
  }
  return options;
}

json FittedColumnsJson(const std::vector<FittedColumn>& columns) {
  json list = json::array();
  for (const FittedColumn& column : columns) {
    json fields = {{"name", column.column.number >= 0 ? json(column.column.number) : json(column.column.name)}};
    if (column.type == ColumnType::kNumber) {
      fields["type"] = "number";
      fields["mean"] = column.mean;
      fields["std"] = column.deviation;
    } else {
      fields["type"] = "category";
      fields["categories"] = column.categories;
    }
    if (column.missing) fields["missing"] = *column.missing;
    list.push_back(std::move(fields));
  }
  return list;
}

json LabelScaleJson(const LabelScale& scale) { return {{"mean", scale.mean}, {"std", scale.deviation}}; }

LabelScale ParseLabelScale(FieldReader fields) {
  LabelScale scale;
  scale.mean = fields.Number("mean", {});
  scale.deviation = fields.Number("std", {.min = 0, .above = true});
  return scale;
}

std::vector<FittedColumn> ParseFittedColumns(const json& value, const std::string& path, FieldErrors& errors) {
  std::vector<FittedColumn> columns;
  if (!value.is_array() || value.empty() || value.size() > kMostColumns) {
    errors.Add(path, fmt::format("found {}, expected a list of columns", Found(value)));
    return columns;
  }
  for (size_t i = 0; i < value.size(); ++i) {
    FieldReader fields(value[i], fmt::format("{}[{}]", path, i), errors);
    FittedColumn& column = columns.emplace_back();
    column.column = ReadColumn(fields, "name");
    column.type = ReadType(fields, std::nullopt);
    if (fields.Get("missing") != nullptr) column.missing = fields.Text("missing");
    if (column.type == ColumnType::kNumber) {
      column.mean = fields.Number("mean", {});
      column.deviation = fields.Number("std", {.min = 0, .above = true});
      continue;
    }
    column.categories = fields.TextList("categories");
    if (column.categories.empty() || !std::ranges::is_sorted(column.categories)) {
      fields.Error("categories", "expected one or more, sorted");
    }
  }
  return columns;
}

}  // namespace trainyard::engine
