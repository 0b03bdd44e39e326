// `spec.training.model` as JSON → ModelSpec.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "trainer/config/field_errors.h"
#include "trainer/model/model_spec.h"

namespace trainyard::engine {

// Reads {preset: lenet5, …its options} or {input: {shape}, layers: […], loss}. Every mistake goes
// to `errors` with its path below `path` ("spec.training.model"). The result may only be used when
// this added no error. Shapes of layers that do not fit together are found here too.
ModelSpec ParseModelSpec(const nlohmann::json& value, std::string_view path, FieldErrors& errors);

}  // namespace trainyard::engine
