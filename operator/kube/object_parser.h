// JSON text → objects, without ever building the fields that nobody reads.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::control {

// Paths to leave out, as ReadOptions has them, below `prefix` ("object.", "items."); metadata.managedFields is always among them.
std::vector<std::string> DropPaths(const std::vector<std::string>& fields, std::string_view prefix);

// InvalidArgument with position for what is no JSON, is nested deeper than 100 levels, or is no object.
absl::StatusOr<nlohmann::json> ParseObject(std::string_view text, const std::vector<std::string>& drop_paths);

// As ParseObject, for an object with an array "items": each item goes to `on_item` as soon as it is read and is not kept. The first error
// of `on_item` is returned.
absl::StatusOr<nlohmann::json> ParseList(std::string_view text, const std::vector<std::string>& drop_paths,
                                         const std::function<absl::Status(nlohmann::json&&)>& on_item);

}  // namespace trainyard::control
