// The name that was most likely meant by a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::engine {

// The name in `known` that is nearest to `name`, or "" when none is near. A name is near
// where it takes at most max(1, a third of its characters) insertions, deletions, replacements and
// swaps of neighbours. Case, '_' and '-' do not count. A name of more than 60 bytes is near to
// none.
std::string_view NearestName(std::string_view name, const std::vector<std::string>& known);

}  // namespace trainyard::engine
