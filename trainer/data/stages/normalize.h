// Examples scaled and centred before the model sees them.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/pipeline_config.h"

namespace trainyard::engine {

// `inner` with (x * scale - mean) / std. The examples become F32, but for the scale that the data set has anyway, alone: models apply that one
// to bytes themselves (model/build_graph.cc), and no other. Lists go along the last axis. InvalidArgument: a list that is neither one number
// nor one for each channel.
absl::StatusOr<std::unique_ptr<Dataset>> Normalized(std::unique_ptr<Dataset> inner, const NormalizeConfig& config);

}  // namespace trainyard::engine
