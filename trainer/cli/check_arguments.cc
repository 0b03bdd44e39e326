#include "trainer/cli/check_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "trainer/base/nearest_name.h"

namespace trainyard::engine {
namespace {

template <typename Info>
std::vector<std::string> Names(const std::vector<Info>& infos) {
  std::vector<std::string> names;
  for (const Info& info : infos) names.push_back(info.name);
  return names;
}

std::string Hint(std::string_view found, const std::vector<std::string>& known) {
  const std::string_view nearest = NearestName(found, known);
  if (!nearest.empty()) return fmt::format("did you mean \"{}\"?", nearest);
  return fmt::format("known here: {}", fmt::join(known, ", "));
}

// What is expected in place of `value`; "": the value will do.
std::string Expected(const FlagInfo& flag, const std::string& value) {
  if (value.empty() && (flag.value == "FILE" || flag.value == "DIR")) return flag.value;
  char* end = nullptr;
  if (flag.value == "N") {
    std::strtoll(value.c_str(), &end, 10);
    return value.empty() || *end != '\0' ? "a whole number" : "";
  }
  if (flag.value != "X") return "";
  std::strtod(value.c_str(), &end);
  return value.empty() || *end != '\0' ? "a number" : "";
}

class Checker {
 public:
  explicit Checker(const CommandInfo& program) : command_(&program) {}

  absl::Status Check(std::span<const std::string> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      if (argument == "--" && command_->commands.empty()) {
        positionals_.insert(positionals_.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
        break;
      }
      if (argument == "--help" || argument == "-h" || argument == "--version") return Result();
      if (argument.size() > 1 && argument.front() == '-') {
        if (!CheckFlag(arguments, i)) return Result();
      } else if (!command_->commands.empty()) {
        if (!Enter(argument)) return Result();
      } else {
        positionals_.push_back(argument);
      }
    }
    CheckMissing();
    if (command_->needs_command) Error("missing, expected a command: {}", fmt::join(Names(command_->commands), ", "));
    return Result();
  }

 private:
  // Of the command that the arguments have come to.
  template <typename... Args>
  void Error(fmt::format_string<Args...> format, Args&&... args) {
    errors_.push_back(fmt::format("{}{}", path_, fmt::format(format, std::forward<Args>(args)...)));
  }

  absl::Status Result() const {
    return errors_.empty() ? absl::OkStatus() : absl::InvalidArgumentError(fmt::format("{}", fmt::join(errors_, "\n")));
  }

  bool Enter(const std::string& name) {
    for (const CommandInfo& inner : command_->commands) {
      if (inner.name != name) continue;
      CheckMissing();
      command_ = &inner;
      path_ = path_.empty() ? name + ": " : fmt::format("{} {}: ", path_.substr(0, path_.size() - 2), name);
      positionals_.clear();
      given_.clear();
      return true;
    }
    Error("unknown command \"{}\"; {}", name, Hint(name, Names(command_->commands)));
    return false;
  }

  // False: nothing behind it can be read. `i` moves on over the flag's value.
  bool CheckFlag(std::span<const std::string> arguments, size_t& i) {
    const size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    const auto flag = std::ranges::find_if(command_->flags, [&](const FlagInfo& f) { return f.name == name || f.short_name == name; });
    if (flag == command_->flags.end()) {
      Error("unknown flag \"{}\"; {}", name, Hint(name, Names(command_->flags)));
      // Whether the next argument is its value is not known: where it looks like one it is taken as
      // one.
      if (equals == std::string::npos && i + 1 < arguments.size() && !arguments[i + 1].starts_with('-') && command_->commands.empty()) ++i;
      unknown_flag_ = true;
      return true;
    }
    given_.insert(flag->name);
    if (flag->value.empty()) return true;
    if (equals == std::string::npos && i + 1 >= arguments.size()) {
      Error("{}: missing, expected {} behind it", name, flag->value);
      return false;
    }
    const std::string value = equals == std::string::npos ? arguments[++i] : arguments[i].substr(equals + 1);
    if (const std::string expected = Expected(*flag, value); !expected.empty()) {
      Error("{}: found \"{}\", expected {}", name, value, expected);
    }
    return true;
  }

  void CheckMissing() {
    for (const FlagInfo& flag : command_->flags) {
      if (flag.required && !given_.contains(flag.name)) Error("{}: missing, expected {}", flag.name, flag.description);
    }
    const std::vector<FlagInfo>& places = command_->positionals;
    const bool any_number = !places.empty() && places.back().repeats;
    for (size_t i = places.size(); i < positionals_.size() && !any_number; ++i)
      Error("found \"{}\", expected nothing there", positionals_[i]);
    for (size_t i = 0; i < std::min(positionals_.size(), places.size()); ++i) {
      if (positionals_[i].empty()) Error("{}: found \"\", expected {}", places[i].name, places[i].description);
    }
    if (unknown_flag_) return;  // which may have swallowed one
    for (size_t i = positionals_.size(); i < places.size(); ++i) {
      if (places[i].required) Error("{}: missing, expected {}", places[i].name, places[i].description);
    }
    if (!any_number || positionals_.size() < places.size()) return;
    const size_t of_last = positionals_.size() - (places.size() - 1);
    if (of_last < static_cast<size_t>(places.back().least)) {
      Error("{}: found {}, expected {}", places.back().name, of_last, places.back().description);
    }
  }

  const CommandInfo* command_;
  std::string path_;
  std::vector<std::string> positionals_;
  std::set<std::string> given_;
  bool unknown_flag_ = false;
  std::vector<std::string> errors_;
};

}  // namespace

absl::Status CheckArguments(const CommandInfo& program, std::span<const std::string> arguments) {
  return Checker(program).Check(arguments);
}

}  // namespace trainyard::engine
