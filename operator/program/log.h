// The form of the operator's log.
#pragma once

#include <string>

namespace trainyard::control {

// `level`: trace, debug, info, warn or error. `format`: text, or json for one object a line.
void SetUpLog(const std::string& level, const std::string& format);

}  // namespace trainyard::control
