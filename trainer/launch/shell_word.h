// Commands that are printed, as a POSIX shell takes them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trainyard::engine {

// One word: quoted where it has more than letters, digits and _./=:,+-@%. A file whose name begins
// with '-' gets its folder in front, since it would be read as a flag.
std::string ShellWord(std::string_view word);

// " --set x=1 --set 'y=[2, 3]'"; "" of none.
std::string SetArguments(std::span<const std::string> overrides);

}  // namespace trainyard::engine
