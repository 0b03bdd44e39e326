#include "trainer/cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <iterator>
#include <string_view>
#include <vector>

namespace trainyard::engine {
namespace {

using Path = std::vector<std::string>;  // names of commands, without the program's

void Visit(const CommandInfo& command, Path& path, const std::function<void(const CommandInfo&, const Path&)>& visit) {
  visit(command, path);
  for (const CommandInfo& inner : command.commands) {
    path.push_back(inner.name);
    Visit(inner, path, visit);
    path.pop_back();
  }
}

void Visit(const CommandInfo& program, const std::function<void(const CommandInfo&, const Path&)>& visit) {
  Path path;
  Visit(program, path, visit);
}

std::string Joined(const Path& path, std::string_view separator = " ") { return fmt::format("{}", fmt::join(path, separator)); }

std::string Replaced(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) text.replace(at, what.size(), with);
  return text;
}

// Inside '…' of bash and zsh.
std::string Quoted(const std::string& text) { return Replaced(text, "'", "'\\''"); }

std::string FunctionName(const CommandInfo& program) { return "_" + Replaced(program.name, "-", "_"); }

std::string Introduction(const CommandInfo& program, std::string_view shell) {
  return fmt::format("# {} completion of {}, made by `{} completion {}`.\n", shell, program.name, program.name, shell);
}

// The options by which compgen offers values of a flag.
std::string BashValues(const FlagInfo& flag) {
  if (const std::vector<std::string> words = WordsOf(flag); !words.empty()) return fmt::format("-W '{}'", fmt::join(words, " "));
  if (flag.value == "FILE") return "-f";
  if (flag.value == "DIR") return "-d";
  return "-W ''";
}

std::string ZshText(const std::string& text) {
  std::string escaped = Replaced(text, "\\", "\\\\");
  for (const char* special : {"[", "]", ":"}) escaped = Replaced(escaped, special, std::string("\\") + special);
  return Quoted(escaped);
}

std::string ZshValues(const FlagInfo& flag) {
  if (const std::vector<std::string> words = WordsOf(flag); !words.empty()) return fmt::format("({})", fmt::join(words, " "));
  if (flag.value == "FILE") return "_files";
  if (flag.value == "DIR") return "_files -/";
  return " ";
}

std::string FishText(const std::string& text) { return Replaced(Replaced(text, "\\", "\\\\"), "'", "\\'"); }

std::string FishValues(const FlagInfo& flag) {
  if (flag.value.empty()) return "";
  if (const std::vector<std::string> words = WordsOf(flag); !words.empty()) return fmt::format(" -x -a '{}'", fmt::join(words, " "));
  if (flag.value == "FILE") return " -r -F";
  if (flag.value == "DIR") return " -x -a '(__fish_complete_directories)'";
  return " -x";
}

// True while `path`, and no command below it, has been typed. `program` knows which words begin
// another path.
std::string FishCondition(const CommandInfo& program, const CommandInfo& command, const Path& path) {
  Path inner;
  for (const CommandInfo& next : command.commands) inner.push_back(next.name);
  std::string condition;
  const auto add = [&condition](const std::string& part) { condition += (condition.empty() ? "" : "; and ") + part; };
  for (const std::string& name : path) add("__fish_seen_subcommand_from " + name);
  if (!inner.empty()) add("not __fish_seen_subcommand_from " + Joined(inner));
  if (path.size() == 1) {  // another command may have one of the same name below it
    for (const CommandInfo& other : program.commands) {
      for (const CommandInfo& below : other.commands) {
        if (below.name == path[0]) add("not __fish_seen_subcommand_from " + other.name);
      }
    }
  }
  return condition;
}

void AppendZshFunction(const CommandInfo& command, const std::string& name, std::string& script) {
  for (const CommandInfo& inner : command.commands) AppendZshFunction(inner, name + "_" + inner.name, script);
  auto out = std::back_inserter(script);
  fmt::format_to(out, "{}() {{\n  local curcontext=\"$curcontext\" state line\n  _arguments -C", name);
  for (const FlagInfo& flag : command.flags) {
    const std::string value = flag.value.empty() ? "" : fmt::format(":{}:{}", ZshText(flag.value), ZshValues(flag));
    fmt::format_to(out, " \\\n    '{}{}[{}]{}'", flag.value.empty() ? "" : "*", flag.name, ZshText(flag.description), value);
  }
  for (const FlagInfo& place : command.positionals) {
    fmt::format_to(out, " \\\n    '{}:{}:{}'", place.repeats ? "*" : "", ZshText(place.name), ZshValues(place));
  }
  if (command.commands.empty()) {
    fmt::format_to(out, "\n}}\n\n");
    return;
  }
  fmt::format_to(out,
                 " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n  case $state in\n  command)\n    local -a commands=(");
  for (const CommandInfo& inner : command.commands) fmt::format_to(out, "\n      '{}:{}'", inner.name, ZshText(inner.description));
  fmt::format_to(out, "\n    )\n    _describe command commands\n    ;;\n  argument)\n    case $line[1] in\n");
  for (const CommandInfo& inner : command.commands) fmt::format_to(out, "    {}) {}_{} ;;\n", inner.name, name, inner.name);
  fmt::format_to(out, "    esac\n    ;;\n  esac\n}}\n\n");
}

}  // namespace

std::string BashCompletion(const CommandInfo& program) {
  std::string paths;
  std::string values;
  std::string words;
  Visit(program, [&](const CommandInfo& command, const Path& path) {
    const std::string at = Joined(path);
    if (!path.empty()) {
      const Path before(path.begin(), path.end() - 1);
      paths += fmt::format("      '{} {}') command='{}' ;;\n", Joined(before), path.back(), at);
    }
    std::string offered;
    std::string places;
    for (const CommandInfo& inner : command.commands) offered += inner.name + " ";
    for (const FlagInfo& flag : command.flags) {
      offered += flag.name + " ";
      if (!flag.value.empty()) {
        values += fmt::format("    '{} {}') COMPREPLY=($(compgen {} -- \"$current\")); return ;;\n", at, flag.name, BashValues(flag));
      }
    }
    for (const FlagInfo& place : command.positionals) places += " " + BashValues(place);
    words += fmt::format("    '{}') COMPREPLY=($(compgen -W '{}' -- \"$current\")", at, offered.substr(0, offered.size() - 1));
    if (!places.empty()) words += fmt::format(" $(compgen{} -- \"$current\")", places);
    words += ") ;;\n";
  });
  const std::string function = FunctionName(program);
  return Introduction(program, "bash") +
         fmt::format(
             "{}() {{\n"
             "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command='' i\n"
             "  for ((i = 1; i < COMP_CWORD; i++)); do\n    case \"$command ${{COMP_WORDS[i]}}\" in\n{}    esac\n  done\n"
             "  case \"$command $previous\" in\n{}  esac\n"
             "  case \"$command\" in\n{}  esac\n}}\n"
             "complete -o filenames -F {} {}\n",
             function, paths, values, words, function, program.name);
}

std::string ZshCompletion(const CommandInfo& program) {
  std::string script = fmt::format("#compdef {}\n", program.name) + Introduction(program, "zsh") + "\n";
  const std::string function = FunctionName(program);
  AppendZshFunction(program, function, script);
  // Read by compinit as the function itself, or sourced.
  return script +
         fmt::format("if [ \"$funcstack[1]\" = \"{0}\" ]; then\n  {0} \"$@\"\nelse\n  compdef {0} {1}\nfi\n", function, program.name);
}

std::string FishCompletion(const CommandInfo& program) {
  std::string script = Introduction(program, "fish") + fmt::format("complete -c {} -f\n", program.name);
  Visit(program, [&](const CommandInfo& command, const Path& path) {
    const std::string when = fmt::format("complete -c {} -n '{}'", program.name, FishCondition(program, command, path));
    for (const CommandInfo& inner : command.commands) {
      script += fmt::format("{} -a {} -d '{}'\n", when, inner.name, FishText(inner.description));
    }
    for (const FlagInfo& flag : command.flags) {
      script += fmt::format("{} -l {}{} -d '{}'\n", when, flag.name.substr(2), FishValues(flag), FishText(flag.description));
    }
    for (const FlagInfo& place : command.positionals) {
      if (const std::vector<std::string> words = WordsOf(place); !words.empty()) {
        script += fmt::format("{} -a '{}'\n", when, fmt::join(words, " "));
      } else if (place.value == "FILE" || place.value == "DIR") {
        script += when + " -F\n";
      }
    }
  });
  return script;
}

}  // namespace trainyard::engine
