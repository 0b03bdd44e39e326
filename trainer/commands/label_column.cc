#include "trainer/commands/label_column.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace trainyard::engine {
namespace {

bool Has(const std::vector<std::string>& header, const std::string& name) { return std::ranges::find(header, name) != header.end(); }

bool IsBlank(const CsvTable& table, size_t column) {
  for (int64_t row = 0; row < table.rows(); ++row) {
    if (!table.Cell(row, column).empty()) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> LackingIn(const std::vector<std::string>& other_header, const std::vector<std::string>& header) {
  std::vector<std::string> lacking;
  if (other_header.empty()) return lacking;
  std::ranges::copy_if(header, std::back_inserter(lacking), [&](const std::string& name) { return !Has(other_header, name); });
  return lacking;
}

absl::StatusOr<size_t> FindLabelColumn(const CsvTable& table, const std::string& wanted, const std::vector<std::string>& other_header) {
  const std::vector<std::string>& header = table.header();
  if (!wanted.empty()) {
    int64_t number = 0;
    const bool is_number = !Has(header, wanted) && absl::SimpleAtoi(wanted, &number) && number >= 0;
    return FindColumn({.name = wanted, .number = is_number ? number : -1}, header, table.columns(), table.name());
  }
  if (const std::vector<std::string> lacking = LackingIn(other_header, header); lacking.size() == 1) {
    return static_cast<size_t>(std::ranges::find(header, lacking[0]) - header.begin());
  }
  for (const char* name : {"label", "class", "target", "y", "species", "category"}) {
    const auto found = std::ranges::find(header, name, [](const std::string& column) { return absl::AsciiStrToLower(column); });
    if (found != header.end()) return static_cast<size_t>(found - header.begin());
  }
  // A comma at the end of each row makes a column without a cell.
  for (size_t column = table.columns(); column-- > 0;) {
    if (!IsBlank(table, column)) return column;
  }
  return table.columns() - 1;
}

}  // namespace trainyard::engine
