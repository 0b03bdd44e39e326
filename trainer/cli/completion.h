// Shell completion: a script that the shell reads at its start.
#pragma once

#include <string>

#include "trainer/cli/command_info.h"

namespace trainyard::engine {

// Each completes commands, flags, the words of a flag, files and folders. `program.name` is the
// program's name on PATH.
std::string BashCompletion(const CommandInfo& program);
std::string ZshCompletion(const CommandInfo& program);
std::string FishCompletion(const CommandInfo& program);

}  // namespace trainyard::engine
