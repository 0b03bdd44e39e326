// The changes of an example before the model sees it, as part of an exported graph.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/csv_config.h"
#include "trainer/data/pipeline_config.h"
#include "trainer/data/stages/normalize.h"
#include "trainer/tensor/dtype.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// What the graph takes, kU8 or kF32, and what it does with it, in order.
struct InputTransforms {
  DType taken = DType::kF32;
  std::vector<float> missing;  // stands for a NaN, one for each element; NaN: nothing does; empty: nothing does for any
  std::vector<Normalization> steps;
};

// Of a model's description: what training, evaluation and `predict` do with examples of type
// `taken`. Bytes come as numbers from 0 to 1 where no stage has a `scale`. `columns` are those of a
// training on csv, in the order of the elements: a number comes as its cell says it, a category as
// a 1 at its place among zeros. InvalidArgument: a list of numbers does not fit the example's
// channels, or the columns are not of that type.
absl::StatusOr<InputTransforms> InputTransformsOf(const PipelineConfig& transforms, DType taken, const Shape& example_shape,
                                                  std::span<const FittedColumn> columns = {});

}  // namespace trainyard::engine
