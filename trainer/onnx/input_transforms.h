// The changes of an example before the model sees it, as part of an exported graph.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/pipeline_config.h"
#include "trainer/data/stages/normalize.h"
#include "trainer/tensor/dtype.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// What the graph takes, kU8 or kF32, and what it does with it, in order.
struct InputTransforms {
  DType taken = DType::kF32;
  std::vector<Normalization> steps;
};

// Of the transforms of a model's description: what training, evaluation and `predict` do with
// examples of type `taken`. Bytes come as numbers from 0 to 1 where no stage has a `scale`.
// InvalidArgument: a list of numbers does not fit the example's channels.
absl::StatusOr<InputTransforms> InputTransformsOf(const PipelineConfig& transforms, DType taken, const Shape& example_shape);

}  // namespace trainyard::engine
