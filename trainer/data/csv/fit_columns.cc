#include "trainer/data/csv/fit_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "trainer/base/printable.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/csv/cell_number.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMostCategories = 1000;
constexpr size_t kQuotedBytes = 40;

absl::Status InColumn(const ColumnRef& column, const absl::Status& status) {
  return WithContext(status, fmt::format("column \"{}\"", column.name));
}

absl::Status IsEmpty() {
  return absl::InvalidArgumentError("the cell is empty, expected a value; `missing` says what stands for it (mean, or a value)");
}

// All columns but the label, as numbers.
std::vector<CsvColumn> AllColumns(const CsvTable& table, size_t label, const MissingRule& missing) {
  std::vector<CsvColumn> columns;
  for (size_t i = 0; i < table.columns(); ++i) {
    if (i == label) continue;
    columns.push_back({.column = RefOfColumn(table.header(), i), .missing = missing});
  }
  return columns;
}

// Mean and deviation of the numbers that are there, in the order of the rows.
absl::Status FitNumbers(const CsvTable& table, std::span<const int64_t> rows, size_t place, const MissingRule& rule, char decimal,
                        FittedColumn& fitted) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const int64_t row : rows) {
    const std::string_view cell = table.Cell(row, place);
    const bool missing = IsMissing(cell, ColumnType::kNumber);
    if (missing && rule.kind == MissingRule::Kind::kError) return WithContext(IsEmpty(), table.PlaceOf(row));
    if (missing && rule.kind == MissingRule::Kind::kMean) continue;
    const absl::StatusOr<double> value = missing ? NumberOf(rule.value) : NumberOf(cell, decimal);
    if (!value.ok()) return WithContext(value.status(), table.PlaceOf(row));
    values.push_back(*value);
  }
  if (values.empty()) return absl::InvalidArgumentError("none of the training's rows has a number there");
  TY_ASSIGN_OR_RETURN(const Moments moments, MomentsOf(values));
  fitted.mean = moments.mean;
  fitted.deviation = moments.deviation;
  if (rule.kind == MissingRule::Kind::kMean) fitted.missing = fmt::format("{}", fitted.mean);
  return absl::OkStatus();
}

absl::Status FitCategories(const CsvTable& table, std::span<const int64_t> rows, size_t place, const MissingRule& rule,
                           FittedColumn& fitted) {
  std::map<std::string, int64_t, std::less<>> counts;
  for (const int64_t row : rows) {
    std::string_view cell = table.Cell(row, place);
    if (IsMissing(cell, ColumnType::kCategory)) {
      if (rule.kind == MissingRule::Kind::kError) return WithContext(IsEmpty(), table.PlaceOf(row));
      if (rule.kind == MissingRule::Kind::kMean) continue;
      cell = rule.value;
    }
    const auto found = counts.find(cell);
    if (found != counts.end()) {
      ++found->second;
    } else {
      counts.emplace(cell, 1);
    }
    if (counts.size() > kMostCategories) {
      return absl::InvalidArgumentError(
          fmt::format("it has more than {} different categories; is it of type number, or no input at all?", kMostCategories));
    }
  }
  if (counts.empty()) return absl::InvalidArgumentError("none of the training's rows has a category there");
  int64_t most = 0;
  for (const auto& [category, count] : counts) {
    fitted.categories.push_back(category);
    if (rule.kind == MissingRule::Kind::kMean && count > most) {
      most = count;
      fitted.missing = category;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Moments> MomentsOf(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  double mean = 0;
  for (const double value : values) mean += value / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean) / count;
  if (!std::isfinite(mean) || !std::isfinite(squares))
    return absl::InvalidArgumentError("the numbers are too large for a mean and a deviation");
  // Equal values have no more than the rounding of their mean.
  const double deviation = std::sqrt(squares);
  return Moments{.mean = mean, .deviation = deviation > 1e-12 * std::abs(mean) ? deviation : 1};
}

bool IsMissing(std::string_view cell, ColumnType type) {
  if (cell.empty()) return true;
  return type == ColumnType::kNumber && (cell == "NA" || cell == "N/A" || cell == "NaN" || cell == "nan" || cell == "null" || cell == "?");
}

int64_t WidthOf(std::span<const FittedColumn> columns) {
  int64_t width = 0;
  for (const FittedColumn& column : columns) width += column.width();
  return width;
}

absl::StatusOr<std::vector<FittedColumn>> FitColumns(const CsvTable& table, std::span<const int64_t> rows, const CsvOptions& options) {
  TY_ASSIGN_OR_RETURN(const size_t label, FindColumn(options.label, table.header(), table.columns(), table.name()));
  const std::vector<CsvColumn> columns = options.columns.empty() ? AllColumns(table, label, options.missing) : options.columns;
  if (columns.empty()) return absl::InvalidArgumentError(fmt::format("{} has a label only, expected a column beside it", table.name()));
  std::vector<FittedColumn> fitted;
  for (const CsvColumn& column : columns) {
    TY_ASSIGN_OR_RETURN(const size_t place, FindColumn(column.column, table.header(), table.columns(), table.name()));
    if (place == label) {
      return absl::InvalidArgumentError(
          fmt::format("column \"{}\" is the label; a model that sees it learns nothing else", column.column.name));
    }
    FittedColumn& result = fitted.emplace_back(FittedColumn{.column = column.column, .type = column.type});
    if (column.missing.kind == MissingRule::Kind::kValue) {
      result.missing = column.missing.value;
      if (column.type == ColumnType::kNumber && !NumberOf(*result.missing).ok()) {
        return InColumn(column.column,
                        absl::InvalidArgumentError(fmt::format("`missing` is \"{}\", expected a number for it", *result.missing)));
      }
    }
    const absl::Status status = column.type == ColumnType::kNumber ? FitNumbers(table, rows, place, column.missing, options.decimal, result)
                                                                   : FitCategories(table, rows, place, column.missing, result);
    if (!status.ok()) return InColumn(column.column, status);
  }
  return fitted;
}

absl::StatusOr<RowEncoder> RowEncoder::Create(std::span<const FittedColumn> columns, const std::vector<std::string>& header, size_t cells,
                                              std::string_view name, char decimal) {
  std::vector<size_t> places;
  for (const FittedColumn& column : columns) {
    TY_ASSIGN_OR_RETURN(const size_t place, FindColumn(column.column, header, cells, name));
    places.push_back(place);
  }
  return RowEncoder(columns, std::move(places), decimal);
}

absl::Status RowEncoder::EncodeCell(const FittedColumn& column, std::string_view cell, std::span<float> out) const {
  const bool missing = IsMissing(cell, column.type);
  if (missing) {
    if (!column.missing) {
      return InColumn(column.column, absl::InvalidArgumentError("the cell is empty, expected a value: the training's job file gives the "
                                                                "column no `missing`, which would stand for it"));
    }
    cell = *column.missing;
  }
  if (column.type == ColumnType::kNumber) {
    const absl::StatusOr<double> value = missing ? NumberOf(cell) : NumberOf(cell, decimal_);
    if (!value.ok()) return InColumn(column.column, value.status());
    out[0] = static_cast<float>((*value - column.mean) / column.deviation);
    if (std::isfinite(out[0])) return absl::OkStatus();
    return InColumn(column.column,
                    absl::InvalidArgumentError(fmt::format("found {}, which is too far from the training's mean {}", *value, column.mean)));
  }
  std::ranges::fill(out, 0.0F);  // and so it stays for a category that is not there
  const auto found = std::ranges::lower_bound(column.categories, cell);
  if (found != column.categories.end() && *found == cell) out[static_cast<size_t>(found - column.categories.begin())] = 1;
  return absl::OkStatus();
}

std::string RowEncoder::UnknownCategoryIn(const FittedColumn& column, std::string_view cell) {
  if (column.type != ColumnType::kCategory) return "";
  if (IsMissing(cell, column.type)) cell = column.missing ? std::string_view(*column.missing) : cell;
  if (std::ranges::binary_search(column.categories, cell)) return "";
  return fmt::format("column \"{}\" has the category \"{}\"", column.column.name, Printable(std::string(cell.substr(0, kQuotedBytes))));
}

}  // namespace trainyard::engine
