// Names of picture files.
#pragma once

#include <string_view>

namespace trainyard::engine {

// Whether the name ends as those of files that DecodeImage reads: in .png, .jpg or .jpeg, in
// letters of either case.
bool IsPictureName(std::string_view name);

}  // namespace trainyard::engine
