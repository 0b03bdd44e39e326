// Names of a data set's classes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/data_config.h"

namespace trainyard::engine {

// images: the folder of a split's class folders.
std::string ClassFoldersDirOf(const DataConfig& config, const DataSplit& split);

// By number, `classes` of them: those that the job gives. Of images they are the
// folders of the training split, sorted, of csv its labels. Of cifar10 they are those of
// <dir>/batches.meta.txt, which CIFAR-10's binary version brings along, where it names so many.
// Else "0", "1" …. Internal: the file is there but cannot be read. Errors of
// ClassFoldersOf and FitCsv.
absl::StatusOr<std::vector<std::string>> ClassNamesOf(const DataConfig& config, int classes);

}  // namespace trainyard::engine
