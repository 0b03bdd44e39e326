// Any bytes: refused with a status or read to the end, and what columns are fitted to encodes.
#include <numeric>

#include "trainer/base/check.h"
#include "trainer/data/csv/csv_reader.h"
#include "trainer/data/csv/csv_table.h"
#include "trainer/data/csv/fit_columns.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CsvReader reader(MemorySource(bytes), "fuzz", ',');
  CsvRow row;
  absl::StatusOr<bool> more = reader.Next(row);
  if (!more.ok() || !*more) return 0;
  CsvTable table({}, row.cells.size());
  table.BeginFile("fuzz");
  while (more.ok() && *more) {
    table.Append(row.cells, row.line);
    more = reader.Next(row);
  }
  CsvOptions options{.label = {.name = "0", .number = 0}};
  for (size_t i = 1; i < std::min<size_t>(table.columns(), 16); ++i) {
    options.columns.push_back({.column = {.name = "x", .number = static_cast<int64_t>(i)},
                               .type = i % 2 == 0 ? ColumnType::kNumber : ColumnType::kCategory,
                               .missing = {.kind = MissingRule::Kind::kMean}});
  }
  std::vector<int64_t> rows(static_cast<size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  const auto columns = FitColumns(table, rows, options);
  if (!columns.ok()) return 0;
  const auto encoder = RowEncoder::Create(*columns, table.header(), table.columns(), "fuzz");
  TY_CHECK(encoder.ok());
  std::vector<float> numbers(static_cast<size_t>(WidthOf(*columns)));
  for (const int64_t each : rows) {
    const absl::Status encoded = encoder->Encode([&](size_t column) { return table.Cell(each, column); }, numbers);
    TY_CHECK(encoded.ok());
  }
  return 0;
}
