// A finite set of examples that can be read in any order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/batch.h"
#include "trainer/data/data_config.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

struct DatasetInfo {
  std::string name;  // what errors call it: files or generator
  int64_t examples = 0;
  Shape example_shape;  // [28, 28, 1]; without the batch axis
  DType x_dtype = DType::kF32;
  float x_scale = 1.0F;
  Shape label_shape;  // [] for class numbers, ExpectedData::target_shape otherwise
  DType y_dtype = DType::kI32;
};

// Thread-safe: const after construction.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetInfo& info() const = 0;
  // Resizes `batch` to indices.size() rows and fills x, y and x_scale. Each index is in [0, info().examples). batch.epoch says which pass
  // over the data this is, for what is different in each (augmentation).
  virtual absl::Status Read(std::span<const int64_t> indices, Batch& batch) const = 0;
};

enum class Split { kTrain, kEval };

// What the model takes. `classes` > 0: y is I32 class numbers below it; 0: y is F32 of `target_shape`.
struct ExpectedData {
  Shape example_shape;
  int classes = 0;
  Shape target_shape;
};

// Opens the files of a split, or generates it from `seed` (the job's). Files whose examples have as many elements as
// `expected.example_shape` are taken as that shape (C order); every label is checked against `expected.classes`. NotFound when kEval is
// asked of a configuration without one. Errors name the file and, for a single record, its number.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DataConfig& config, Split split, const ExpectedData& expected, uint64_t seed);

}  // namespace trainyard::engine
