// YAML as JSON, for text that we ship ourselves: the CRD, examples.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace trainyard::control {

// The first document of `text`. Plain scalars become booleans and numbers where they read as such.
// InvalidArgument with line and column.
absl::StatusOr<nlohmann::json> YamlToJson(const std::string& text);

}  // namespace trainyard::control
