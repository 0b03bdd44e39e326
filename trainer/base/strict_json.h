// JSON from outside that names each field once.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// `text` (RFC 8259) as a value, in time linear in its length. InvalidArgument, as "field \"a\" is
// given twice": it is not JSON; an object gives a name twice, of which readers would take another
// value each; a name is longer than `most_name_bytes`; it has more than kMostJsonLevels levels.
absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text, size_t most_name_bytes);

}  // namespace trainyard::engine
