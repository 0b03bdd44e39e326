// JSON from outside: files, peers, other processes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace trainyard::engine {

// Lists and objects in each other. To copy, compare or write a value takes stack for each level: a
// deeper text could end the process.
inline constexpr int kMostJsonLevels = 64;

// Discarded (is_discarded()): `text` is not JSON, or it has more levels.
nlohmann::json ParseJson(std::string_view text);
// The same; the fields of an object stay in the order of the text.
nlohmann::ordered_json ParseOrderedJson(std::string_view text);

}  // namespace trainyard::engine
