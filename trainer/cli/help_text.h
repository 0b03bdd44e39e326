// The text of --help.
#pragma once

#include <string>

#include "trainer/cli/command_info.h"
#include "trainer/cli/palette.h"

namespace trainyard::engine {

// `called` is the command with all that stands before it: "trainyard-trainer launch". Lines have at
// most 100 columns where words allow it.
std::string HelpText(const CommandInfo& command, const std::string& called, const Palette& palette);

// "--output DIR", "-h, --help", "FILE"
std::string Spelling(const FlagInfo& flag);
// The description, with the default where there is one.
std::string DescriptionOf(const FlagInfo& flag);

}  // namespace trainyard::engine
