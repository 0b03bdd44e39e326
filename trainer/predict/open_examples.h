// The examples of a file of any format that we read.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/predict/example_reader.h"

namespace trainyard::engine {

// The file's first bytes tell its format. It is a PNG or JPEG picture, or an .npy or IDX array,
// packed by gzip or not. An array holds one example (its shape is the model's) or a batch (it has
// one axis more, in front). Extents of 1 may be missing, and an example may be flat. A file whose
// name ends with .json or .jsonl has an array on each line. NotFound, InvalidArgument, DataLoss: no
// example can be read. Errors do not name the file.
absl::StatusOr<std::unique_ptr<ExampleReader>> OpenExamples(const std::string& path, const ExampleForm& form);

}  // namespace trainyard::engine
