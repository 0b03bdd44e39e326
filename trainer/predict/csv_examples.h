// Rows of CSV text as examples.
#pragma once

#include <istream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/data_config.h"
#include "trainer/predict/example_reader.h"

namespace trainyard::engine {

// A file of the columns of a training on `data`, whose `fitted` is there: by the names of its
// header, or by number where the training's files had none. The label's column may be absent.
// InvalidArgument, NotFound: it cannot be read, or a column is not there. `data` must outlive the
// reader. An example's index is the number of its row, from 0.
absl::StatusOr<std::unique_ptr<ExampleReader>> OpenCsvExamples(const std::string& path, const DataConfig& data);

// The same of standard input and the like, which must outlive the reader.
absl::StatusOr<std::unique_ptr<ExampleReader>> ReadCsvExamples(std::istream& lines, const DataConfig& data);

}  // namespace trainyard::engine
