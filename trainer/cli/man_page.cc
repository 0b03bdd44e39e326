#include "trainer/cli/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "trainer/cli/help_text.h"

namespace trainyard::engine {
namespace {

// A line of text: no character of it is a macro.
std::string Roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string Upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

void AppendRows(const std::vector<FlagInfo>& flags, std::string& page) {
  for (const FlagInfo& flag : flags) {
    fmt::format_to(std::back_inserter(page), ".TP\n.B {}\n{}\n", Roff(Spelling(flag)), Roff(DescriptionOf(flag)));
  }
}

void AppendExamples(const CommandInfo& command, std::string& page) {
  if (command.examples.empty()) return;
  page += ".PP\nExamples:\n.PP\n.nf\n";
  std::string_view rest = command.examples;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    page += "    " + Roff(rest.substr(0, end)) + "\n";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  page += ".fi\n";
}

void AppendCommand(const CommandInfo& command, const std::string& called, std::string& page) {
  std::string usage = called;
  for (const FlagInfo& place : command.positionals) usage += " " + place.name + (place.repeats ? "..." : "");
  if (!command.needs_command) {
    fmt::format_to(std::back_inserter(page), ".SS {}\n{}\n", Roff(usage), Roff(command.description));
    AppendRows(command.positionals, page);
    AppendRows(command.flags, page);
    AppendExamples(command, page);
  }
  for (const CommandInfo& inner : command.commands) AppendCommand(inner, called + " " + inner.name, page);
}

}  // namespace

std::string ManPage(const CommandInfo& program, const std::string& version) {
  std::string page = fmt::format(
      ".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n[FLAGS] COMMAND\n.SH DESCRIPTION\n{}\n",
      Upper(Roff(program.name)), Roff(program.name), Roff(version), Roff(program.name), Roff(program.description), Roff(program.name),
      Roff(program.description));
  AppendRows(program.flags, page);
  AppendExamples(program, page);
  page += ".SH COMMANDS\n";
  for (const CommandInfo& command : program.commands) AppendCommand(command, command.name, page);
  page +=
      ".SH ENVIRONMENT\n.TP\n.B TRAINYARD_ROLE, TRAINYARD_INDEX, TRAINYARD_CONFIG_DIR\nThe role, index and configuration folder of a "
      "replica; flags of train take precedence.\n"
      ".TP\n.B NO_COLOR\nWithout colours, also on a terminal.\n"
      ".SH EXIT STATUS\n.TP\n.B 0\nThe work is done.\n.TP\n.B 1\\-127\nA mistake that a restart does not cure: 2 for a wrong command "
      "line.\n"
      ".TP\n.B 130\nThe user stopped the job.\n.TP\n.B 128 and above\nA signal, an absent peer (200), or no memory (201): a restart goes "
      "on from "
      "the last checkpoint.\n";
  return page;
}

}  // namespace trainyard::engine
