// The settings of a run, one line each.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::engine {

// {"optimizer": {"name": "adam"}, "range": [0, 9]} becomes the lines optimizer.name with the text
// adam, and range with [0, 9]. A list of objects has a line for each of their fields, such as
// layers[2].dense.units. In the order of the object.
std::vector<std::pair<std::string, std::string>> SettingLines(const nlohmann::ordered_json& settings);

}  // namespace trainyard::engine
