// A set of replica indexes and its short text, "0-3,5": in status it stays short for thousands of
// workers.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace trainyard::control {

std::string FormatIndexes(const std::set<int>& indexes);
// Hostile text reads as far as it makes sense; ranges beyond `limit` are cut there.
std::set<int> ParseIndexes(std::string_view text, int limit);

}  // namespace trainyard::control
