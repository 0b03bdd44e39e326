// The delimiter of a CSV file that nothing tells.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// The tab, semicolon or comma that cuts each of the first rows into as many cells, two or more. Of
// several it is the one that gives the most cells, in this order where they give as many. Else
// `fallback`. Errors of OpenFileSource.
absl::StatusOr<char> DelimiterOf(const std::string& path, char fallback);

}  // namespace trainyard::engine
