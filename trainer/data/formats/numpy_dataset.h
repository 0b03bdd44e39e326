// A data set of two numpy arrays: examples and labels.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/example_range.h"

namespace trainyard::engine {

struct NumpyFiles {
  std::string archive;  // an .npz file that has both arrays; "": each is a file
  std::string images;   // an .npy file, packed by gzip or not; or the name of an array
  std::string labels;
  ExampleRange range;
  bool in_memory = true;  // false: examples are read from the file for each batch, if it is an .npy file that is not packed
};

// Checked before anything is trained: arrays whole, as many labels as examples, examples as large
// as the model's input, each label one of its classes.
absl::StatusOr<std::unique_ptr<Dataset>> OpenNumpyDataset(const NumpyFiles& files, const ExpectedData& expected);

}  // namespace trainyard::engine
