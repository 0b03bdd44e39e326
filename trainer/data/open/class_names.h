// Names of a data set's classes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/data_config.h"

namespace trainyard::engine {

// By number, `classes` of them: those that the job gives; of cifar10 those of <dir>/batches.meta.txt, which CIFAR-10's binary version
// brings along, where it names so many; else "0", "1" …. Internal: the file is there but cannot be read.
absl::StatusOr<std::vector<std::string>> ClassNamesOf(const DataConfig& config, int classes);

}  // namespace trainyard::engine
