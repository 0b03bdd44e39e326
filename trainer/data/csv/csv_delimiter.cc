#include "trainer/data/csv/csv_delimiter.h"

#include <memory>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/csv/csv_reader.h"

namespace trainyard::engine {
namespace {

constexpr int kRows = 200;  // that are looked at

// The cells of each row; 1 where the rows differ or cannot be read.
absl::StatusOr<size_t> CellsBy(const std::string& path, char delimiter) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, Unpacked(std::move(file), path));
  CsvReader reader(std::move(source), path, delimiter);
  CsvRow row;
  size_t cells = 1;
  for (int i = 0; i < kRows; ++i) {
    const absl::StatusOr<bool> more = reader.Next(row);
    if (!more.ok()) return 1;
    if (!*more) break;
    cells = row.cells.size();
  }
  return cells;
}

}  // namespace

absl::StatusOr<char> DelimiterOf(const std::string& path, char fallback) {
  size_t most = 1;
  char found = fallback;
  for (const char delimiter : {'\t', ';', ','}) {
    TY_ASSIGN_OR_RETURN(const size_t cells, CellsBy(path, delimiter));
    if (cells <= most) continue;
    most = cells;
    found = delimiter;
  }
  return found;
}

}  // namespace trainyard::engine
