// The program's page for man(1).
#pragma once

#include <string>

#include "trainer/cli/command_info.h"

namespace trainyard::engine {

// roff with the macros of man(7): every command with its flags and examples. `version` stands in
// the footer.
std::string ManPage(const CommandInfo& program, const std::string& version);

}  // namespace trainyard::engine
