// A data set of TFRecord files whose records are tf.Examples.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/example_range.h"
#include "trainer/data/formats/tf_example.h"

namespace trainyard::engine {

struct TfRecordFiles {
  std::vector<std::string> paths;  // .gz or not; their records follow each other
  ExampleRange range;
  FeatureNames features;
  bool in_memory = true;  // false: records are read and parsed for each batch, if no file is packed by gzip
};

// Every record is read, checked and parsed once before anything is trained.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTfRecordDataset(const TfRecordFiles& files, const ExpectedData& expected);

}  // namespace trainyard::engine
