// The data of an evaluation that a user names in place of the training's.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/data_config.h"

namespace trainyard::engine {

// Whether two paths lead to one folder. "": the working directory.
bool IsSameFolder(const std::string& a, const std::string& b);

// The evaluation of `data` with all examples of its files, where it would have a part of those that
// train. A text keeps its part: no other text has the training's vocabulary.
DataConfig EvaluatedWhole(DataConfig data);

// The evaluation of `data` with the file `name` in data.dir in place of its files: of all of its
// examples, or of the part that data.eval has. InvalidArgument: data of this format is no one file.
absl::StatusOr<DataConfig> EvaluatedFile(DataConfig data, const std::string& name, bool keep_part);

// Whether the evaluation of `data` reads the file `name` in data.dir, and no other.
bool EvaluatesFile(const DataConfig& data, const std::string& name);

}  // namespace trainyard::engine
