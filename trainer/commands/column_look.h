// What the cells of a CSV column are, as `init` takes them.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "trainer/data/csv/csv_table.h"

namespace trainyard::engine {

struct ColumnLook {
  static constexpr size_t kMostCategories = 100;
  static constexpr int64_t kFewestUnlike = 10;

  int64_t cells = 0;  // that are not empty
  int64_t numbers = 0;
  int64_t texts = 0;                             // that are neither numbers nor words for an empty cell, such as NA
  int64_t words = 0;                             // for an empty cell
  int64_t with_commas = 0;                       // texts that are numbers without their commas: 1,5 or 1,000
  int64_t infinite = 0;                          // texts that are infinite numbers: inf or -Infinity
  bool empty = false;                            // some cell is
  bool whole = true;                             // all cells that are not empty have digits alone
  std::string first_text;                        // shortened, as it is printed
  std::string first_place;                       // "FILE:LINE" of that
  std::set<std::string, std::less<>> different;  // cells that are not empty, at most one more than kMostCategories

  bool is_number() const { return numbers > 0 && texts == 0; }
  bool has_missing() const { return empty || (is_number() && words > 0); }
  bool is_blank() const { return different.empty(); }
  bool has_too_many() const { return different.size() > kMostCategories; }
  // Names, dates, free text: no cell is like another, so a model learns nothing of them.
  bool is_all_different() const {
    return numbers + with_commas == 0 && cells >= kFewestUnlike && static_cast<int64_t>(different.size()) == cells;
  }
  // Of a column that looks as one of numbers and is none, what is in the way: "59 numbers and 1
  // text, such as "30x" in t.csv:31". "": it does not look so.
  std::string Doubt() const;
};

ColumnLook LookAt(const CsvTable& table, size_t column, char decimal = '.');

// The character before the fractions of a table's numbers: a comma where some cells can only be
// read so ("1,5") and none has a point, else a point. "1,000" may be either.
char DecimalOf(const CsvTable& table);

// Whether a cell is a number, or would be one without its commas.
bool LooksLikeNumber(std::string_view cell);

}  // namespace trainyard::engine
