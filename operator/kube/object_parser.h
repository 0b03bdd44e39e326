// JSON text → objects, without the fields that are not read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/kube/field_filter.h"

namespace trainyard::control {

// InvalidArgument with position for a text that is not JSON, is nested deeper than 100 levels, or
// is not an object.
absl::StatusOr<nlohmann::json> ParseObject(std::string_view text, const FieldFilter& filter);

}  // namespace trainyard::control
