// How messages about fields show a value, and how they name an unknown field. Flags are
// named so too.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::control {

// The value as JSON, at most 80 bytes of it.
std::string Shown(const nlohmann::json& value);

// The name of `known` that is fewer than three edits from `name`; "": none is.
std::string_view NearestName(std::string_view name, const std::vector<std::string>& known);

// "unknown field; did you mean "replicas"?", where one of `known` is near.
std::string UnknownField(std::string_view name, const std::vector<std::string>& known);

}  // namespace trainyard::control
