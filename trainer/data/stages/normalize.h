// Examples scaled and centred before the model sees them.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/pipeline_config.h"

namespace trainyard::engine {

// `inner` with x * scale, then (x - mean) / std. A scale alone costs nothing: it becomes the data set's x_scale. A mean or a standard
// deviation makes the examples F32; lists of them go along the last axis. InvalidArgument: a list that is neither one number nor one for
// each channel.
absl::StatusOr<std::unique_ptr<Dataset>> Normalized(std::unique_ptr<Dataset> inner, const NormalizeConfig& config);

}  // namespace trainyard::engine
