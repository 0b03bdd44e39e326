// Columns of text → numbers for a model: fitted to the training's rows, then applied to any row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/csv/csv_table.h"
#include "trainer/data/csv_config.h"

namespace trainyard::engine {

// The columns of `options`, with mean, deviation and categories of `rows`, which are not empty.
// InvalidArgument names the cell: it is empty and may not be, or is not a number. Also: a column
// without any value, or with more than 1000 categories; a label among the columns.
absl::StatusOr<std::vector<FittedColumn>> FitColumns(const CsvTable& table, std::span<const int64_t> rows, const CsvOptions& options);

struct Moments {
  double mean = 0;
  double deviation = 1;  // of all values (not n - 1); 1 where all values are equal
};

// `values` are not empty. InvalidArgument: a moment is beyond the range of a double.
absl::StatusOr<Moments> MomentsOf(std::span<const double> values);

// The numbers that the columns become together.
int64_t WidthOf(std::span<const FittedColumn> columns);

// Whether a cell of such a column is an empty one: it is, or is a word that stands for no number in
// many files.
bool IsMissing(std::string_view cell, ColumnType type);

// Rows of one file as the model sees them. Thread-safe.
class RowEncoder {
 public:
  // `header` and `columns` (cells of a row) are those of the text called `name`. InvalidArgument:
  // a column is not there. `columns` must outlive it. `decimal`: as in NumberOf.
  static absl::StatusOr<RowEncoder> Create(std::span<const FittedColumn> columns, const std::vector<std::string>& header, size_t cells,
                                           std::string_view name, char decimal = '.');

  // `cell(i)` gives the text of column i; `out` holds WidthOf(columns). A category that the
  // training did not have becomes zeros. InvalidArgument names the column, but not the row.
  template <typename CellOf>
  absl::Status Encode(const CellOf& cell, std::span<float> out) const {
    size_t at = 0;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const auto width = static_cast<size_t>(columns_[i].width());
      if (absl::Status status = EncodeCell(columns_[i], cell(places_[i]), out.subspan(at, width)); !status.ok()) return status;
      at += width;
    }
    return absl::OkStatus();
  }

  // Names the row's first column with such a category, and the category; "": there is none.
  template <typename CellOf>
  std::string UnknownCategory(const CellOf& cell) const {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (std::string unknown = UnknownCategoryIn(columns_[i], cell(places_[i])); !unknown.empty()) return unknown;
    }
    return "";
  }

 private:
  RowEncoder(std::span<const FittedColumn> columns, std::vector<size_t> places, char decimal)
      : columns_(columns), places_(std::move(places)), decimal_(decimal) {}
  absl::Status EncodeCell(const FittedColumn& column, std::string_view cell, std::span<float> out) const;
  static std::string UnknownCategoryIn(const FittedColumn& column, std::string_view cell);

  std::span<const FittedColumn> columns_;
  std::vector<size_t> places_;  // of each column in a row
  char decimal_;
};

}  // namespace trainyard::engine
