#include "trainer/data/csv/csv_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/nearest_name.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/csv/csv_reader.h"
#include "trainer/data/told_source.h"

namespace trainyard::engine {

void CsvTable::Append(const std::vector<std::string>& cells, int64_t line) {
  TY_CHECK(cells.size() == columns_ && !files_.empty());
  for (const std::string& cell : cells) {
    text_ += cell;
    ends_.push_back(text_.size());
  }
  lines_.push_back(line);
}

void CsvTable::TakeHeader() {
  TY_CHECK(header_.empty() && files_.size() == 1 && rows() > 1);
  for (size_t column = 0; column < columns_; ++column) header_.emplace_back(Cell(0, column));
  const uint64_t taken = ends_[columns_ - 1];
  text_.erase(0, taken);
  ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(columns_));
  for (uint64_t& end : ends_) end -= taken;
  lines_.erase(lines_.begin());
}

std::string_view CsvTable::Cell(int64_t row, size_t column) const {
  const size_t cell = static_cast<size_t>(row) * columns_ + column;
  const uint64_t begin = cell == 0 ? 0 : ends_[cell - 1];
  return std::string_view(text_).substr(begin, ends_[cell] - begin);
}

std::string CsvTable::PlaceOf(int64_t row) const {
  const auto behind = std::ranges::upper_bound(files_, row, {}, &File::first_row);
  return fmt::format("{}:{}", std::prev(behind)->name, lines_[static_cast<size_t>(row)]);
}

std::string CsvTable::name() const {
  return files_.size() == 1 ? files_[0].name : fmt::format("{} and {} more", files_[0].name, files_.size() - 1);
}

absl::StatusOr<CsvTable> ReadCsvTable(const std::vector<std::string>& paths, const CsvOptions& options) {
  std::optional<CsvTable> table;
  for (const std::string& path : paths) {
    TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
    TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, Unpacked(Told(std::move(file), path), path));
    CsvReader reader(std::move(source), path, options.delimiter);
    CsvRow row;
    TY_ASSIGN_OR_RETURN(bool more, reader.Next(row));
    if (!more) return absl::InvalidArgumentError(fmt::format("{} is empty, expected rows of CSV", path));
    std::vector<std::string> header = options.header ? row.cells : std::vector<std::string>();
    if (!table) {
      table.emplace(std::move(header), row.cells.size());
    } else if (header != table->header() || row.cells.size() != table->columns()) {
      return absl::InvalidArgumentError(fmt::format("{} has other columns than {}", path, paths[0]));
    }
    table->BeginFile(path);
    if (options.header) {
      TY_ASSIGN_OR_RETURN(more, reader.Next(row));
      if (!more) return absl::InvalidArgumentError(fmt::format("{} has a header and no rows, expected a row for each example", path));
    }
    while (more) {
      table->Append(row.cells, row.line);
      TY_ASSIGN_OR_RETURN(more, reader.Next(row));
    }
  }
  TY_CHECK(table.has_value());
  return *std::move(table);
}

ColumnRef RefOfColumn(const std::vector<std::string>& header, size_t column) {
  const bool named = !header.empty() && !header[column].empty() && std::ranges::count(header, header[column]) == 1;
  return named ? ColumnRef{.name = header[column]} : ColumnRef{.name = std::to_string(column), .number = static_cast<int64_t>(column)};
}

absl::StatusOr<size_t> FindColumn(const ColumnRef& column, const std::vector<std::string>& header, size_t columns, std::string_view name) {
  if (column.number >= 0) {
    if (static_cast<size_t>(column.number) < columns) return static_cast<size_t>(column.number);
    return absl::InvalidArgumentError(
        fmt::format("{} has {} columns, but no column {}: they are counted from 0", name, columns, column.number));
  }
  const auto found = std::ranges::find(header, column.name);
  if (found == header.end()) {
    if (header.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{} has no header, so column \"{}\" needs a number, counted from 0", name, column.name));
    }
    const std::string_view nearest = NearestName(column.name, header);
    return absl::InvalidArgumentError(
        fmt::format("{} has no column \"{}\"; {}", name, column.name,
                    nearest.empty() ? fmt::format("it has {}", fmt::join(header, ", ")) : fmt::format("did you mean \"{}\"?", nearest)));
  }
  if (std::ranges::count(header, column.name) > 1) {
    return absl::InvalidArgumentError(fmt::format("{} has several columns \"{}\"; name them by number, counted from 0", name, column.name));
  }
  return static_cast<size_t>(found - header.begin());
}

}  // namespace trainyard::engine
