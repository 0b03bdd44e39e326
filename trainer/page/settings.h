// The settings of a run, one line each.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::engine {

// {"optimizer": {"name": "adam"}, "range": [0, 9]} → ("optimizer.name", "adam"), ("range", "[0, 9]");
// lists of objects have a line for each of their fields: "layers[2].dense.units". In the order of
// the object.
std::vector<std::pair<std::string, std::string>> SettingLines(const nlohmann::ordered_json& settings);

}  // namespace trainyard::engine
