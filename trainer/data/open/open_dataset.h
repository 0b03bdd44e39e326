// The one place that opens a data set by its format, with the stages of its pipeline.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "trainer/data/data_config.h"
#include "trainer/data/dataset.h"

namespace trainyard::engine {

enum class Split { kTrain, kEval };

// Opens the files of a split, or generates it from `seed` (the job's), with the stages of the
// pipeline that change or keep examples. Random changes are made to training data only. Files whose
// examples have as many elements as `expected.example_shape` are taken as that shape (C order).
// Every label is checked against `expected.classes`. NotFound when kEval is asked of a
// configuration without one. Errors name the file and, for a single record, its number.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DataConfig& config, Split split, const ExpectedData& expected, uint64_t seed);

}  // namespace trainyard::engine
