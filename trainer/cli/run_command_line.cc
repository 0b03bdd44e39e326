#include "trainer/cli/run_command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trainer/cli/check_arguments.h"
#include "trainer/cli/command_info.h"
#include "trainer/cli/completion.h"
#include "trainer/cli/help_text.h"
#include "trainer/cli/man_page.h"
#include "trainer/cli/palette.h"
#include "trainer/cli/print.h"

namespace trainyard::engine {
namespace {

// The program's name and those of the commands in `arguments`: "trainyard-trainer data stats".
std::string CalledCommand(const CLI::App& app, std::span<const std::string> arguments) {
  std::string called = app.get_name();
  const CLI::App* command = &app;
  for (const std::string& argument : arguments) {
    const auto inner = command->get_subcommands([&](const CLI::App* known) { return known->get_name() == argument; });
    if (inner.empty()) continue;
    command = inner.front();
    called += " " + argument;
  }
  return called;
}

int TellMistakes(const CLI::App& app, std::span<const std::string> arguments, std::string_view mistakes) {
  PrintError(mistakes);
  std::fprintf(stderr, "%s --help has flags and examples\n", CalledCommand(app, arguments).c_str());
  return kWrongCommandLine;
}

// The exit code of a program that was to exit with `code`, once all of its output is written.
int WithOutputWritten(int code) {
  const bool cut_before = std::ferror(stdout) != 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !cut_before) return code;
  PrintError(
      fmt::format("standard output cannot be written{}: what it got is cut off", flushed ? "" : fmt::format(", {}", std::strerror(errno))));
  return code == 0 ? kUnwritten : code;
}

// "--flag=" as two arguments, the second empty: CLI11 would take the next argument for the flag's
// value.
std::vector<std::string> WithEmptyValues(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      out.insert(out.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
      break;
    }
    const bool empty = argument.size() > 3 && argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    out.push_back(empty ? argument.substr(0, argument.size() - 1) : argument);
    if (empty) out.emplace_back();
  }
  return out;
}

}  // namespace

void SetUpHelp(CLI::App& app) {
  app.set_help_flag("-h,--help", "print this help");
  app.formatter_fn([](const CLI::App* command, const std::string& called, CLI::AppFormatMode) {
    return HelpText(Describe(*command), called, PaletteFor(STDOUT_FILENO));
  });
}

void AddShellCommands(CLI::App& app, const std::string& version) {
  CLI::App* completion = app.add_subcommand("completion", "print the completion script of a shell");
  auto shell = std::make_shared<std::string>();
  OneOf(completion->add_option("SHELL", *shell, "the shell that reads the script"), {"bash", "zsh", "fish"})->required();
  const std::string name = app.get_name();
  completion->footer(
      fmt::format("source <({0} completion bash)                                  # this shell\n"
                  "{0} completion zsh > \"${{fpath[1]}}/_{0}\"                    # zsh, from its next start\n"
                  "{0} completion fish > ~/.config/fish/completions/{0}.fish",
                  name));
  completion->callback([shell, &app] {
    const CommandInfo program = Describe(app);
    Print(*shell == "bash" ? BashCompletion(program) : *shell == "zsh" ? ZshCompletion(program) : FishCompletion(program));
  });
  CLI::App* man = app.add_subcommand("man", "print the manual page, in roff");
  man->footer(fmt::format("{} man | man -l -", name));
  man->callback([version, &app] { Print(ManPage(Describe(app), version)); });
}

int RunCommandLine(CLI::App& app, int argc, char** argv, const int& exit_code) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    std::fprintf(stderr, "%s", HelpText(Describe(app), app.get_name(), PaletteFor(STDERR_FILENO)).c_str());
    return kWrongCommandLine;
  }
  const absl::Status checked = CheckArguments(Describe(app), arguments);
  if (!checked.ok()) return TellMistakes(app, arguments, std::string(checked.message()));
  try {
    std::vector<std::string> parsed = WithEmptyValues(arguments);
    std::ranges::reverse(parsed);  // as CLI11 wants it
    app.parse(std::move(parsed));
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? WithOutputWritten(app.exit(error)) : TellMistakes(app, arguments, error.what());
  }
  return WithOutputWritten(exit_code);
}

}  // namespace trainyard::engine
