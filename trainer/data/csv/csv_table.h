// The rows of CSV files in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/csv_config.h"

namespace trainyard::engine {

// Cells lie one after the other in one string.
class CsvTable {
 public:
  // `header` empty: the files have none. `columns` is the number of cells of each row.
  CsvTable(std::vector<std::string> header, size_t columns) : header_(std::move(header)), columns_(columns) {}

  void BeginFile(std::string name) { files_.push_back({.name = std::move(name), .first_row = rows()}); }
  void Append(const std::vector<std::string>& cells, int64_t line);
  // The first row becomes the header. The table has one file, two rows or more and no header.
  void TakeHeader();

  const std::vector<std::string>& header() const { return header_; }
  size_t columns() const { return columns_; }
  int64_t rows() const { return static_cast<int64_t>(lines_.size()); }
  std::string_view Cell(int64_t row, size_t column) const;
  // "FILE:LINE"
  std::string PlaceOf(int64_t row) const;
  // The files' names.
  std::string name() const;

 private:
  struct File {
    std::string name;
    int64_t first_row = 0;
  };
  std::vector<std::string> header_;
  size_t columns_;
  std::vector<File> files_;
  std::string text_;
  std::vector<uint64_t> ends_;  // of each cell in text_
  std::vector<int64_t> lines_;  // of each row
};

// Files of the same columns, packed by gzip or not, as one table. InvalidArgument: a file is empty
// or has no row, the headers or numbers of columns differ, or what CsvReader says.
absl::StatusOr<CsvTable> ReadCsvTable(const std::vector<std::string>& paths, const CsvOptions& options);

// How a job names a column: by its name in `header`. A column goes by its number without a header,
// with an empty name, or where several columns have its name.
ColumnRef RefOfColumn(const std::vector<std::string>& header, size_t column);

// The place of a column in rows under `header`, of `columns` cells. InvalidArgument, with `name` of
// the text: no column has that name or number, or several have the name.
absl::StatusOr<size_t> FindColumn(const ColumnRef& column, const std::vector<std::string>& header, size_t columns, std::string_view name);

}  // namespace trainyard::engine
