// The one place that finds a CSV training's columns and classes: in its checkpoint or in its files.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/data/csv/csv_dataset.h"
#include "trainer/data/data_config.h"

namespace trainyard::engine {

// The files of a split, with what the job says of them.
CsvFiles CsvFilesOf(const DataConfig& config, const DataSplit& split);

// config.fitted and config.classes where they are known, else what FitCsv finds in the files of the
// training split.
absl::StatusOr<CsvFit> CsvFitOf(const DataConfig& config, bool has_classes);

// Makes them known, so that the files are read for them once. Another format stays as it is.
absl::Status KnowCsvFit(DataConfig& config, bool has_classes);

}  // namespace trainyard::engine
