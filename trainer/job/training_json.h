// `spec.training` as JSON → TrainingConfig.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "trainer/config/field_errors.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

// Every mistake goes to `errors` with its path below `path` ("spec.training"). The result may only
// be used when this added no mistake.
TrainingConfig ParseTraining(const nlohmann::json& value, std::string_view path, FieldErrors& errors);

}  // namespace trainyard::engine
