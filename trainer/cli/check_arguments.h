// Mistakes of a command line, in plain words, before it is parsed.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "trainer/cli/command_info.h"

namespace trainyard::engine {

// `arguments` without the program's name. InvalidArgument has a line for each mistake. A mistake is
// an unknown command or flag (told with a near one), or a flag without its value. Others are a
// value that is not a number, an argument too many, a missing argument. Arguments after --help are
// not checked. An argument after "--" is never a flag. The parser checks values further.
absl::Status CheckArguments(const CommandInfo& program, std::span<const std::string> arguments);

}  // namespace trainyard::engine
