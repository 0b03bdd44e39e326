#include "trainer/commands/column_look.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "trainer/base/counted.h"
#include "trainer/base/printable.h"
#include "trainer/data/csv/cell_number.h"
#include "trainer/data/csv/fit_columns.h"
#include "trainer/data/utf8.h"

namespace trainyard::engine {
namespace {

constexpr size_t kShownBytes = 40;

bool IsNumberWithCommas(std::string_view cell) {
  return cell.find(',') != std::string_view::npos && NumberOf(absl::StrReplaceAll(std::string(cell), {{",", ""}})).ok();
}

// One comma, with another number of digits behind it than a group of thousands has.
bool HasDecimalComma(std::string_view cell) {
  const size_t comma = cell.find(',');
  if (comma == std::string_view::npos || !NumberOf(cell, ',').ok()) return false;
  size_t end = comma + 1;
  while (end < cell.size() && absl::ascii_isdigit(static_cast<unsigned char>(cell[end]))) ++end;
  return end - comma - 1 != 3;
}

// The whole characters within the first bytes.
std::string Shown(std::string_view cell) {
  size_t end = 0;
  while (end < cell.size() && end + CodePointBytes(cell.substr(end)) <= kShownBytes) end += CodePointBytes(cell.substr(end));
  return fmt::format("{}{}", Printable(std::string(cell.substr(0, end))), end < cell.size() ? "…" : "");
}

}  // namespace

bool LooksLikeNumber(std::string_view cell) { return NumberOf(cell).ok() || IsNumberWithCommas(cell); }

char DecimalOf(const CsvTable& table) {
  bool comma = false;
  for (int64_t row = 0; row < table.rows(); ++row) {
    for (size_t column = 0; column < table.columns(); ++column) {
      const std::string_view cell = table.Cell(row, column);
      if (cell.find('.') != std::string_view::npos && LooksLikeNumber(cell)) return '.';
      comma = comma || HasDecimalComma(cell);
    }
  }
  return comma ? ',' : '.';
}

std::string ColumnLook::Doubt() const {
  const int64_t like_numbers = with_commas + infinite;
  if (texts == 0 || numbers + like_numbers <= texts - like_numbers) return "";
  const std::string others = with_commas == texts ? Counted(texts, "number with a comma", "numbers with a comma")
                             : infinite == texts  ? Counted(texts, "infinite number")
                                                  : Counted(texts, "text");
  return fmt::format("{}{}, such as \"{}\" in {}", numbers > 0 ? Counted(numbers, "number") + " and " : "", others, first_text,
                     first_place);
}

ColumnLook LookAt(const CsvTable& table, size_t column, char decimal) {
  ColumnLook look;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::string_view cell = table.Cell(row, column);
    if (cell.empty()) {
      look.empty = true;
      continue;
    }
    ++look.cells;
    look.whole = look.whole && std::ranges::all_of(cell, [](unsigned char c) { return absl::ascii_isdigit(c); });
    if (!look.has_too_many() && !look.different.contains(cell)) look.different.emplace(cell);
    if (NumberOf(cell, decimal).ok()) {
      ++look.numbers;
    } else if (IsMissing(cell, ColumnType::kNumber)) {
      ++look.words;
    } else {
      if (look.texts++ == 0) {
        look.first_text = Shown(cell);
        look.first_place = Printable(table.PlaceOf(row));
      }
      look.with_commas += IsNumberWithCommas(cell) ? 1 : 0;
      look.infinite += IsInfinite(cell) ? 1 : 0;
    }
  }
  return look;
}

}  // namespace trainyard::engine
