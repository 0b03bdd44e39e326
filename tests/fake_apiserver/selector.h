// Label and field selectors, as far as controllers use them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard::control {

// Comma-separated "key", "!key", "key=value", "key!=value"; an empty selector matches everything.
bool MatchesLabels(const std::string& selector, const nlohmann::json& object);
// Comma-separated "path=value" or "path!=value" over any path of the object; a missing field is "".
bool MatchesFields(const std::string& selector, const nlohmann::json& object);

}  // namespace trainyard::control
