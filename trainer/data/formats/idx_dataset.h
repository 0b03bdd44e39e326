// A data set of two IDX files: images (or any records) and labels.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/formats/idx.h"

namespace trainyard::engine {

struct IdxDatasetFiles {
  std::string images;
  std::string labels;
  IdxRange range;
  bool in_memory = true;  // false: images are read from the file for each batch, if it is not packed by gzip
};

// Records of unsigned bytes stay bytes and are scaled by 1/255 in the model. Every other type
// becomes F32 as it is. Checked before anything is trained: both files are whole, there are as many
// labels as images, examples are as large as the model's input. Each label is one of the model's
// classes.
absl::StatusOr<std::unique_ptr<Dataset>> OpenIdxDataset(const IdxDatasetFiles& files, const ExpectedData& expected);

}  // namespace trainyard::engine
