// `spec.training.data` as JSON → plain data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trainer/config/field_errors.h"
#include "trainer/data/data_config.h"

namespace trainyard::engine {

// Every mistake goes to `errors`, below `path`; the result is only good when there are none.
// docs/data.md is what it reads.
DataConfig ParseData(const nlohmann::json& value, std::string path, FieldErrors& errors);

}  // namespace trainyard::engine
