// The words for an errno.
#pragma once

#include <string>

namespace trainyard::engine {

// The system's own; with the setting to look at where a limit of open files is the reason: "Too
// many open files, see ulimit -n".
std::string ErrorText(int error);

}  // namespace trainyard::engine
