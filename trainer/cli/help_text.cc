#include "trainer/cli/help_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

namespace trainyard::engine {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kIndent = 26;  // of descriptions

// Words of `text` in lines of at most `width`.
std::vector<std::string> Wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back().append(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void AppendRow(std::string& text, const std::string& left, const std::string& right) {
  const std::vector<std::string> lines = Wrap(right, kColumns - kIndent);
  size_t next = 0;
  if (left.size() + 4 <= kIndent) {
    fmt::format_to(std::back_inserter(text), "  {:<{}}{}\n", left, kIndent - 2, lines[next++]);
  } else {
    fmt::format_to(std::back_inserter(text), "  {}\n", left);
  }
  for (; next < lines.size(); ++next) fmt::format_to(std::back_inserter(text), "{:<{}}{}\n", "", kIndent, lines[next]);
}

}  // namespace

std::string Spelling(const FlagInfo& flag) {
  const std::string name = flag.short_name.empty() ? flag.name : fmt::format("{}, {}", flag.short_name, flag.name);
  return flag.value.empty() || !flag.name.starts_with('-') ? name : fmt::format("{} {}", name, flag.value);
}

std::string DescriptionOf(const FlagInfo& flag) {
  if (!flag.fallback.empty()) return fmt::format("{} (default: {})", flag.description, flag.fallback);
  return flag.required && flag.name.starts_with('-') ? flag.description + " (required)" : flag.description;
}

std::string HelpText(const CommandInfo& command, const std::string& called, const Palette& palette) {
  std::string text = fmt::format("{}\n\n{} {}", command.description, palette.Bold("Usage:"), called);
  if (!command.flags.empty()) text += " [FLAGS]";
  for (const FlagInfo& place : command.positionals) {
    text += fmt::format(fmt::runtime(place.required ? " {}{}" : " [{}{}]"), place.name, place.repeats ? "..." : "");
  }
  text += command.commands.empty() ? "\n" : command.needs_command ? " COMMAND\n" : " [COMMAND]\n";
  if (!command.positionals.empty()) text += '\n';
  for (const FlagInfo& place : command.positionals) AppendRow(text, Spelling(place), DescriptionOf(place));
  if (!command.commands.empty()) text += fmt::format("\n{}\n", palette.Bold("Commands:"));
  for (const CommandInfo& inner : command.commands) AppendRow(text, inner.name, inner.description);
  if (!command.flags.empty()) text += fmt::format("\n{}\n", palette.Bold("Flags:"));
  for (const FlagInfo& flag : command.flags) AppendRow(text, Spelling(flag), DescriptionOf(flag));
  if (!command.examples.empty()) {
    text += fmt::format("\n{}\n", palette.Bold("Examples:"));
    std::string_view rest = command.examples;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      fmt::format_to(std::back_inserter(text), "  {}\n", rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return text;
}

}  // namespace trainyard::engine
