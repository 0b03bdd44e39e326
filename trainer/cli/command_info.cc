#include "trainer/cli/command_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "trainer/base/nearest_name.h"

namespace trainyard::engine {
namespace {

std::string ValueName(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  if (type == "INT" || type == "UINT") return "N";
  if (type == "FLOAT") return "X";
  return type.empty() ? "VALUE" : type;
}

FlagInfo Describe(const CLI::Option& option) {
  FlagInfo flag{.value = ValueName(option),
                .description = option.get_description(),
                .fallback = option.get_default_str(),
                .required = option.get_required()};
  if (!option.get_lnames().empty()) flag.name = "--" + option.get_lnames().front();
  if (!option.get_snames().empty()) flag.short_name = "-" + option.get_snames().front();
  return flag;
}

}  // namespace

CommandInfo Describe(const CLI::App& app) {
  CommandInfo command{.name = app.get_name(),
                      .description = app.get_description(),
                      .examples = app.get_footer(),
                      .needs_command = app.get_require_subcommand_min() > 0};
  for (const CLI::Option* option : app.get_options()) {
    FlagInfo flag = Describe(*option);
    if (!option->get_positional()) {
      command.flags.push_back(std::move(flag));
      continue;
    }
    flag.name = option->get_name(/*positional=*/true);
    flag.repeats = option->get_items_expected_max() > 1;
    flag.least = std::max(1, option->get_items_expected_min());
    command.positionals.push_back(std::move(flag));
  }
  for (const CLI::App* inner : app.get_subcommands([](const CLI::App*) { return true; })) command.commands.push_back(Describe(*inner));
  return command;
}

std::vector<std::string> WordsOf(const FlagInfo& flag) {
  std::vector<std::string> words;
  if (flag.value.find('|') == std::string::npos) return words;
  for (size_t begin = 0; begin <= flag.value.size();) {
    const size_t end = std::min(flag.value.find('|', begin), flag.value.size());
    words.push_back(flag.value.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

CLI::Option* OneOf(CLI::Option* option, const std::vector<std::string>& words, const std::function<bool(const std::string&)>& also) {
  const auto check = [words, also](std::string& found) -> std::string {
    const auto alike = [&found](const std::string& word) {
      return std::ranges::equal(word, found, [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
    };
    if (const auto word = std::ranges::find_if(words, alike); word != words.end()) {
      found = *word;
      return "";
    }
    if (also && also(found)) return "";
    const std::string_view nearest = NearestName(found, words);
    return fmt::format("found \"{}\", expected one of {}{}", found, fmt::join(words, ", "),
                       nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest));
  };
  return option->transform(CLI::Validator(check, "", "words"))->type_name(fmt::format("{}", fmt::join(words, "|")));
}

CLI::Option* InRange(CLI::Option* option, double minimum, double maximum) {
  const auto check = [minimum, maximum](std::string& found) -> std::string {
    char* end = nullptr;
    const double number = std::strtod(found.c_str(), &end);
    if (!found.empty() && *end == '\0' && number >= minimum && number <= maximum) return "";
    return fmt::format("found \"{}\", expected a number from {} to {}", found, minimum, maximum);
  };
  return option->check(CLI::Validator(check, "", "range"));
}

}  // namespace trainyard::engine
