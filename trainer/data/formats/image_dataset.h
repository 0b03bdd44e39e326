// Pictures in folders, one folder a class, as a data set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/evaluation_part.h"
#include "trainer/picture/fit_image.h"

namespace trainyard::engine {

struct ImageDatasetOptions {
  std::string dir;                   // of the class folders
  std::vector<std::string> classes;  // by number
  bool every_class = true;           // each class needs a picture
  SetPart part = SetPart::kAll;
  double eval_fraction = 0;  // the evaluation's share of each class; not of kAll
  uint64_t seed = 1;         // of the parts, and of the order
  ImageFit fit = ImageFit::kCrop;
};

// The pictures stay in their files: each is decoded and brought to the model's shape when it is
// read, by several threads. The examples come in an order that the seed draws, so neighbours are of
// different classes. Read gives InvalidArgument or DataLoss with the name of the first file that is
// wrong. InvalidArgument here: the errors of ListImages, a model that takes no pictures or gives no
// classes, another number of classes than the model's, or a part without examples.
absl::StatusOr<std::unique_ptr<Dataset>> OpenImageDataset(const ImageDatasetOptions& options, const ExpectedData& expected);

}  // namespace trainyard::engine
