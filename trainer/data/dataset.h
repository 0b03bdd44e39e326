// A finite set of examples that can be read in any order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/data/batch.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

class Vocabulary;

struct DatasetInfo {
  std::string name;  // what errors call it: files or generator
  int64_t examples = 0;
  std::vector<int64_t> files;  // examples of each file, in order; empty: it is not several files
  Shape example_shape;         // [28, 28, 1]; without the batch axis
  DType x_dtype = DType::kF32;
  float x_scale = 1.0F;
  Shape label_shape;  // [] for class numbers, [steps] for those of a sequence, ExpectedData::target_shape otherwise
  DType y_dtype = DType::kI32;
  // > 0: the data set is one stream of tokens. Example i is the `stream_steps` tokens from token i
  // on, so examples overlap. Its labels are the tokens after each. A Sampler cuts the stream into
  // as many rows as the workers' batches together have examples.
  int64_t stream_steps = 0;
  std::shared_ptr<const Vocabulary> vocabulary = nullptr;  // of text
};

// Thread-safe: const after construction.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetInfo& info() const = 0;
  // Resizes `batch` to indices.size() examples and fills x, y and x_scale. Each index is in [0,
  // info().examples). batch.epoch says which pass over the data this is, for what is different in
  // each (augmentation).
  virtual absl::Status Read(std::span<const int64_t> indices, Batch& batch) const = 0;
};

// The examples and labels that the model takes. `vocabulary` > 0: x is I32 tokens below it.
// `classes` > 0: y is I32 class numbers below it, of `label_shape`: [], or [steps] for a model that
// scores each step of a sequence. 0: y is F32 of `target_shape`.
struct ExpectedData {
  Shape example_shape;
  int classes = 0;
  Shape target_shape;
  int64_t vocabulary = 0;
  Shape label_shape;
};

}  // namespace trainyard::engine
