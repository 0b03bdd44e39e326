#include "trainer/data/csv/csv_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/class_name.h"
#include "trainer/data/csv/cell_number.h"
#include "trainer/data/csv/fit_columns.h"
#include "trainer/data/memory_dataset.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMostClasses = 1 << 16;
constexpr size_t kListed = 12;

std::optional<int64_t> WholeNumberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

absl::StatusOr<std::string_view> LabelOf(const CsvTable& table, int64_t row, size_t column) {
  const std::string_view label = table.Cell(row, column);
  if (label.empty()) return absl::InvalidArgumentError(fmt::format("{}: the label is empty", table.PlaceOf(row)));
  return label;
}

absl::StatusOr<double> LabelNumber(const CsvTable& table, int64_t row, size_t column, char decimal) {
  TY_ASSIGN_OR_RETURN(const std::string_view text, LabelOf(table, row, column));
  const absl::StatusOr<double> number = NumberOf(text, decimal);
  if (!number.ok()) return WithContext(number.status(), fmt::format("{}: the label", table.PlaceOf(row)));
  return *number;
}

// Mean and deviation of the labels in `rows`.
absl::StatusOr<LabelScale> FitLabel(const CsvTable& table, std::span<const int64_t> rows, size_t label_column, char decimal) {
  std::vector<double> labels;
  labels.reserve(rows.size());
  for (const int64_t row : rows) {
    TY_ASSIGN_OR_RETURN(const double label, LabelNumber(table, row, label_column, decimal));
    labels.push_back(label);
  }
  const absl::StatusOr<Moments> moments = MomentsOf(labels);
  if (!moments.ok()) return WithContext(moments.status(), fmt::format("{}: the label", table.name()));
  return LabelScale{.mean = moments->mean, .deviation = moments->deviation};
}

// All labels, sorted; as numbers where all are whole numbers.
absl::StatusOr<std::vector<std::string>> ClassesOf(const CsvTable& table, size_t label_column) {
  std::set<std::string, std::less<>> found;
  for (int64_t row = 0; row < table.rows(); ++row) {
    TY_ASSIGN_OR_RETURN(const std::string_view label, LabelOf(table, row, label_column));
    if (found.contains(label)) continue;
    if (!IsClassName(label)) {
      return absl::InvalidArgumentError(fmt::format("{}: the label has control characters or more than 256 bytes", table.PlaceOf(row)));
    }
    if (found.size() == kMostClasses) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the labels are more than {} different ones; is it the label's column?", table.name(), kMostClasses));
    }
    found.emplace(label);
  }
  std::vector<std::string> classes(found.begin(), found.end());
  if (std::ranges::all_of(classes, [](const std::string& name) { return WholeNumberOf(name).has_value(); })) {
    std::ranges::sort(classes, {}, [](const std::string& name) { return std::pair(*WholeNumberOf(name), name); });
  }
  return classes;
}

// The class number of each row; zeros for a model that gives numbers.
absl::StatusOr<std::vector<int32_t>> ClassNumbers(const CsvTable& table, size_t label_column, const std::vector<std::string>& classes) {
  std::vector<int32_t> numbers(static_cast<size_t>(table.rows()), 0);
  if (classes.empty()) return numbers;
  for (int64_t row = 0; row < table.rows(); ++row) {
    TY_ASSIGN_OR_RETURN(const std::string_view label, LabelOf(table, row, label_column));
    const auto found = std::ranges::find(classes, label);
    if (found == classes.end()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: the label \"{}\" is none of the {} classes ({}{})", table.PlaceOf(row), label.substr(0, 40), classes.size(),
          fmt::join(classes.begin(), classes.begin() + std::min(kListed, classes.size()), ", "), classes.size() > kListed ? ", …" : ""));
    }
    numbers[static_cast<size_t>(row)] = static_cast<int32_t>(found - classes.begin());
  }
  return numbers;
}

// The rows of a part, in their order.
std::vector<int64_t> RowsOf(const CsvFiles& files, SetPart part, std::span<const int32_t> groups) {
  std::vector<uint64_t> keys;
  for (size_t row = 0; row < groups.size(); ++row) keys.push_back(SplitKey(files.seed, std::to_string(row)));
  const std::vector<bool> evaluation = EvaluationPart(keys, groups, files.eval_fraction);
  std::vector<int64_t> rows;
  for (size_t row = 0; row < groups.size(); ++row) {
    if (part == SetPart::kAll || evaluation[row] == (part == SetPart::kEvaluation)) rows.push_back(static_cast<int64_t>(row));
  }
  return rows;
}

absl::Status CheckModel(const CsvFiles& files, const CsvFit& fit, const ExpectedData& expected) {
  const int64_t width = WidthOf(fit.columns);
  if (width != expected.example_shape.elements()) {
    std::vector<std::string> parts;
    for (const FittedColumn& column : fit.columns) {
      if (parts.size() == kListed) {
        parts.emplace_back("…");
        break;
      }
      parts.push_back(column.width() == 1 ? column.column.name : fmt::format("{}: {}", column.column.name, column.width()));
    }
    return absl::InvalidArgumentError(
        fmt::format("{}: its columns become {} numbers ({}), the model's input is {}; say input: {{shape: [{}]}}", files.paths[0], width,
                    fmt::join(parts, ", "), expected.example_shape.ToString(), width));
  }
  if (expected.classes > 0 && static_cast<size_t>(expected.classes) != fit.classes.size()) {
    return absl::InvalidArgumentError(fmt::format("{}: its labels are {} classes, the model has {}; its last layer needs {} units",
                                                  files.paths[0], fit.classes.size(), expected.classes, fit.classes.size()));
  }
  if (expected.classes == 0 && expected.target_shape.elements() != 1) {
    return absl::InvalidArgumentError(fmt::format("{}: the label is one number, the model's output is {}; its last layer needs 1 unit",
                                                  files.paths[0], expected.target_shape.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CsvFit> FitCsv(const CsvFiles& files, bool has_classes) {
  TY_ASSIGN_OR_RETURN(const CsvTable table, ReadCsvTable(files.paths, files.options));
  return FitCsv(table, files, has_classes);
}

absl::StatusOr<CsvFit> FitCsv(const CsvTable& table, const CsvFiles& files, bool has_classes) {
  TY_ASSIGN_OR_RETURN(const size_t label, FindColumn(files.options.label, table.header(), table.columns(), table.name()));
  CsvFit fit;
  if (has_classes) {
    TY_ASSIGN_OR_RETURN(fit.classes, files.classes.empty() ? ClassesOf(table, label) : files.classes);
  }
  TY_ASSIGN_OR_RETURN(const std::vector<int32_t> groups, ClassNumbers(table, label, fit.classes));
  const std::vector<int64_t> rows = RowsOf(files, SetPart::kTraining, groups);
  TY_ASSIGN_OR_RETURN(fit.columns, FitColumns(table, rows, files.options));
  if (files.options.standardize_label) {
    TY_ASSIGN_OR_RETURN(fit.label_scale, FitLabel(table, rows, label, files.options.decimal));
  }
  return fit;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenCsvDataset(const CsvFiles& files, SetPart part, const CsvFit& fit,
                                                        const ExpectedData& expected) {
  TY_RETURN_IF_ERROR(CheckModel(files, fit, expected));
  TY_ASSIGN_OR_RETURN(const CsvTable table, ReadCsvTable(files.paths, files.options));
  TY_ASSIGN_OR_RETURN(const size_t label, FindColumn(files.options.label, table.header(), table.columns(), table.name()));
  TY_ASSIGN_OR_RETURN(const RowEncoder encoder,
                      RowEncoder::Create(fit.columns, table.header(), table.columns(), table.name(), files.options.decimal));
  TY_ASSIGN_OR_RETURN(const std::vector<int32_t> groups, ClassNumbers(table, label, fit.classes));
  const std::vector<int64_t> rows = RowsOf(files, part, groups);
  if (rows.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: evalFraction {} of {} rows leaves none for the evaluation", table.name(), files.eval_fraction, table.rows()));
  }
  DatasetInfo info{.name = table.name(), .examples = static_cast<int64_t>(rows.size()), .files = {}};
  info.example_shape = expected.example_shape;
  info.y_dtype = expected.classes > 0 ? DType::kI32 : DType::kF32;
  if (expected.classes == 0) info.label_shape = expected.target_shape;
  const auto width = static_cast<size_t>(info.example_shape.elements());
  Buffer x(rows.size() * width * sizeof(float));
  Buffer y(rows.size() * sizeof(float));  // of either type
  static_assert(sizeof(float) == sizeof(int32_t));
  int64_t with_unknown = 0;
  std::string first_unknown;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t row = rows[i];
    const auto cell = [&](size_t column) { return table.Cell(row, column); };
    const absl::Status encoded = encoder.Encode(cell, {x.as<float>() + i * width, width});
    if (!encoded.ok()) return WithContext(encoded, table.PlaceOf(row));
    if (const std::string unknown = encoder.UnknownCategory(cell); !unknown.empty()) {
      if (with_unknown++ == 0) first_unknown = fmt::format("{}: {}", table.PlaceOf(row), unknown);
    }
    if (expected.classes > 0) {
      y.as<int32_t>()[i] = groups[static_cast<size_t>(row)];
      continue;
    }
    TY_ASSIGN_OR_RETURN(const double number, LabelNumber(table, row, label, files.options.decimal));
    y.as<float>()[i] = fit.label_scale.value_or(LabelScale()).Learnt(number);
    if (!std::isfinite(y.as<float>()[i]) || !std::isfinite(static_cast<float>(number)))  // predictions are floats, too
      return absl::InvalidArgumentError(fmt::format("{}: the label {} is too large", table.PlaceOf(row), number));
  }
  if (with_unknown > 0) {
    LogWarning("{}, which the training did not have; such categories become zeros, in {} of {} rows", first_unknown, with_unknown,
               rows.size());
  }
  return std::make_unique<MemoryDataset>(std::move(info), std::move(x), std::move(y));
}

}  // namespace trainyard::engine
