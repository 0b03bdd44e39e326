// `--set path=value`: changes to a job file before anything in it is checked.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace trainyard::engine {

// `text` is "path=value". A path is field names with dots and places in lists,
// "spec.training.model.layers[2].dense.units"; "spec." may be left out. The value is YAML; null
// removes the field. Objects on the way are made where they are absent, a place just behind the end
// of a list adds to it. InvalidArgument names the override and what is wrong with it; `job` is then
// unchanged.
absl::Status ApplyOverride(std::string_view text, nlohmann::json& job);

// All of them in order; the error has a line for each that is wrong. training.epochs and
// training.steps say the same thing in two ways: one that is set here takes the place of the other
// that the file has.
absl::Status ApplyOverrides(std::span<const std::string> texts, nlohmann::json& job);

}  // namespace trainyard::engine
