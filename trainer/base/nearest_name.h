// The name that was most likely meant by a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::engine {

// The name in `known` that is nearest to `name`, or "" when none is near: at most a third of its characters, and at least one, may have to
// be inserted, deleted, replaced or swapped with their neighbour. Case, '_' and '-' do not count. A name of more than 60 bytes is near to
// none.
std::string_view NearestName(std::string_view name, const std::vector<std::string>& known);

}  // namespace trainyard::engine
