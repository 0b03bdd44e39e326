// CSV files as a data set: columns become numbers, one column is the label.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/csv/csv_table.h"
#include "trainer/data/csv_config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/evaluation_part.h"

namespace trainyard::engine {

struct CsvFiles {
  std::vector<std::string> paths;  // at least one; of the same columns
  CsvOptions options;
  // > 0: the evaluation's share of the rows (of each class), drawn by `seed`; the others train.
  double eval_fraction = 0;
  uint64_t seed = 1;
  std::vector<std::string> classes;  // by number, from the job; empty: those of the files, sorted
};

// What a training's rows tell: it stays with the checkpoint.
struct CsvFit {
  std::vector<FittedColumn> columns;
  // By number; empty for a model that gives numbers. Sorted, as numbers where all are whole ones.
  std::vector<std::string> classes;
  std::optional<LabelScale> label_scale;  // of options.standardize_label
};

// Of the training's part of the rows; classes are those of all rows. `has_classes`: the label is a
// category. Errors of ReadCsvTable and FitColumns. InvalidArgument names a row without a label, or
// of a label that is none of `classes`.
absl::StatusOr<CsvFit> FitCsv(const CsvFiles& files, bool has_classes);
// The same of the files' rows.
absl::StatusOr<CsvFit> FitCsv(const CsvTable& table, const CsvFiles& files, bool has_classes);

// The rows of a part, as floats in memory. InvalidArgument: the columns are more or fewer numbers
// than the model's input, the classes are not as many as the model's, the part has no rows, or a
// row is wrong (by file and line). Labels are class numbers, or one number for a model that gives
// one.
absl::StatusOr<std::unique_ptr<Dataset>> OpenCsvDataset(const CsvFiles& files, SetPart part, const CsvFit& fit,
                                                        const ExpectedData& expected);

}  // namespace trainyard::engine
