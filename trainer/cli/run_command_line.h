// From argv to an exit code, with errors in plain words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace trainyard::engine {

inline constexpr int kWrongCommandLine = 2;  // as a shell's own commands exit
inline constexpr int kUnwritten = 1;         // all went well, but standard output was not written

// How --help looks. Call it before commands are added: they inherit it.
void SetUpHelp(CLI::App& app);

// Adds `completion bash|zsh|fish` and `man`, which print what is made from `app` itself. `version`
// stands in the manual page.
void AddShellCommands(CLI::App& app, const std::string& version);

// Checks the arguments, then lets the chosen command run. Returns `exit_code` as the command left
// it, 0 after --help and --version, or kWrongCommandLine after it has printed each mistake once on
// standard error. Without any argument it prints the help there. Output that standard output did
// not take, as on a full disk, is an error: kUnwritten in place of 0.
int RunCommandLine(CLI::App& app, int argc, char** argv, const int& exit_code);

}  // namespace trainyard::engine
