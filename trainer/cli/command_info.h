// The arguments of a command line, as plain data. They are read once from the CLI11 app, so that
// help, checks, completion and man page cannot drift from it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::engine {

struct FlagInfo {
  std::string name;        // "--output", or of a positional argument "FILE"
  std::string short_name;  // "-h"; "": none
  std::string value;  // FILE, DIR, N (a whole number), X (a number), "auto|bar|plain" (one of these words) or another word; "": takes none
  std::string description;
  std::string fallback;  // the default's text; "": none
  bool required = false;
  bool repeats = false;  // a positional argument that may be given several times: the last one
  int least = 1;         // how often it must be given, where it is required
};

struct CommandInfo {
  std::string name;
  std::string description;
  std::string examples;               // one a line
  std::vector<FlagInfo> positionals;  // in order
  std::vector<FlagInfo> flags;
  std::vector<CommandInfo> commands;
  bool needs_command = false;  // else it does something without one of its commands, too
};

CommandInfo Describe(const CLI::App& app);

// The words of a value such as "auto|bar|plain"; empty for any other value.
std::vector<std::string> WordsOf(const FlagInfo& flag);

// The option takes one of `words`, whatever their case; or what `also` takes, which has one of them
// for completion.
CLI::Option* OneOf(CLI::Option* option, const std::vector<std::string>& words,
                   const std::function<bool(const std::string&)>& also = nullptr);
// The option takes a number from `minimum` to `maximum`.
CLI::Option* InRange(CLI::Option* option, double minimum, double maximum);

}  // namespace trainyard::engine
