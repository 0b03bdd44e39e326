// JSON text → objects, without the fields that nobody reads.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/kube/field_filter.h"

namespace trainyard::control {

// InvalidArgument with position for what is no JSON, is nested deeper than 100 levels, or is no object.
absl::StatusOr<nlohmann::json> ParseObject(std::string_view text, const FieldFilter& filter);

// As ParseObject, for an object with an array "items": each item goes to `on_item` as soon as it is read and is not kept. The first error
// of `on_item` is returned.
absl::StatusOr<nlohmann::json> ParseList(std::string_view text, const FieldFilter& filter,
                                         const std::function<absl::Status(nlohmann::json&&)>& on_item);

}  // namespace trainyard::control
