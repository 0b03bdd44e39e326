// Examples scaled and centred before the model sees them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/pipeline_config.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// y = x * factor + offset, with one of each for all channels, or one for each channel.
struct Normalization {
  std::vector<float> factor;
  std::vector<float> offset;
};

// Of examples of `shape`, channels last, that have the scale `x_scale` anyway. Nothing: that scale
// is all there is to do. InvalidArgument as Normalized.
absl::StatusOr<std::optional<Normalization>> NormalizationOf(const NormalizeConfig& config, float x_scale, const Shape& shape);

// `inner` with (x * scale - mean) / std. The examples become F32, unless the scale that the data
// set has anyway is all there is to do. Models apply that scale, and no other, to bytes themselves
// (model/build_graph.cc). Lists go along the last axis. InvalidArgument: a list that is neither one
// number nor one for each channel.
absl::StatusOr<std::unique_ptr<Dataset>> Normalized(std::unique_ptr<Dataset> inner, const NormalizeConfig& config);

}  // namespace trainyard::engine
