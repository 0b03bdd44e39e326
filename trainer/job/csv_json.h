// The columns of a CSV file as JSON: those of a job, and those that a checkpoint keeps.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trainer/config/field_reader.h"
#include "trainer/data/csv_config.h"

namespace trainyard::engine {

// label, standardizeLabel, columns, missing, delimiter, decimal and header of `spec.training.data`.
// Mistakes go to the reader's errors.
CsvOptions ParseCsvOptions(FieldReader& fields);

// `columns` of a checkpoint's description (model_description.h), both ways.
nlohmann::json FittedColumnsJson(const std::vector<FittedColumn>& columns);
std::vector<FittedColumn> ParseFittedColumns(const nlohmann::json& value, const std::string& path, FieldErrors& errors);
// `label` of it.
nlohmann::json LabelScaleJson(const LabelScale& scale);
LabelScale ParseLabelScale(FieldReader fields);

}  // namespace trainyard::engine
