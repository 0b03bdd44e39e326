// The columns of a CSV file as a job names them, and what a training learnt of them, as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

// A column by the name in its file's header, or by its number from 0.
struct ColumnRef {
  std::string name;     // of a column that has a number: that number
  int64_t number = -1;  // -1: by name
  friend bool operator==(const ColumnRef&, const ColumnRef&) = default;
};

enum class ColumnType : uint8_t { kNumber, kCategory };

// What stands for an empty cell. kMean: the training's mean, or its most frequent category.
struct MissingRule {
  enum class Kind : uint8_t { kError, kMean, kValue };
  Kind kind = Kind::kError;
  std::string value;  // kValue
  friend bool operator==(const MissingRule&, const MissingRule&) = default;
};

struct CsvColumn {
  ColumnRef column;
  ColumnType type = ColumnType::kNumber;
  MissingRule missing;
  friend bool operator==(const CsvColumn&, const CsvColumn&) = default;
};

struct CsvOptions {
  ColumnRef label;
  std::vector<CsvColumn> columns;  // in the order of the model's inputs; empty: all but the label, as numbers
  MissingRule missing;             // of columns that the job does not list
  char delimiter = ',';
  char decimal = '.';  // before the fraction of a number
  bool header = true;
  bool standardize_label = false;  // of a model that gives numbers
  friend bool operator==(const CsvOptions&, const CsvOptions&) = default;
};

// A column with what the training's rows gave. A number x becomes (x - mean) / deviation. A
// category becomes as many numbers as there are categories: 1 at its place, else 0. Of a category
// that the training had not, all are 0.
struct FittedColumn {
  ColumnRef column;
  ColumnType type = ColumnType::kNumber;
  double mean = 0;
  double deviation = 1;                 // of all rows (not n - 1); 1 where all values are equal
  std::vector<std::string> categories;  // sorted
  std::optional<std::string> missing;   // the cell that stands for an empty one; absent: an empty cell is an error
  int64_t width() const { return type == ColumnType::kNumber ? 1 : static_cast<int64_t>(categories.size()); }
  friend bool operator==(const FittedColumn&, const FittedColumn&) = default;
};

// A label that is a number, as a model learns it: (y - mean) / deviation.
struct LabelScale {
  double mean = 0;
  double deviation = 1;  // as a column's
  float Learnt(double label) const { return static_cast<float>((label - mean) / deviation); }
  float LabelOf(float learnt) const { return static_cast<float>(static_cast<double>(learnt) * deviation + mean); }
  friend bool operator==(const LabelScale&, const LabelScale&) = default;
};

}  // namespace trainyard::engine
