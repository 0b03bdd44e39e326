#include "operator/program/flag_values.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "operator/program/host_and_port.h"

namespace trainyard::control {
namespace {

// CLI11 puts the flag before the refusal, and shows `shown` in the help.
template <typename Fits>
CLI::Validator Expect(std::string expected, std::string shown, Fits fits) {
  return {[expected = std::move(expected), fits = std::move(fits)](std::string& text) {
            return fits(text) ? std::string() : fmt::format("found \"{}\", expected {}", text, expected);
          },
          std::move(shown)};
}

bool IsNumber(const std::string& text, double* value) { return absl::SimpleAtod(text, value) && std::isfinite(*value); }

}  // namespace

CLI::Validator WholeNumber(int least, int most) {
  return Expect(fmt::format("a whole number from {} to {}", least, most), fmt::format("{} to {}", least, most),
                [=](const std::string& text) {
                  int value = 0;
                  return absl::SimpleAtoi(text, &value) && least <= value && value <= most;
                });
}

CLI::Validator NumberFrom(double least) {
  return Expect(fmt::format("a number, {} or more", least), fmt::format("{} or more", least), [=](const std::string& text) {
    double value = 0;
    return IsNumber(text, &value) && value >= least;
  });
}

CLI::Validator NumberAbove(double bound) {
  return Expect(fmt::format("a number above {}", bound), fmt::format("above {}", bound), [=](const std::string& text) {
    double value = 0;
    return IsNumber(text, &value) && value > bound;
  });
}

CLI::Validator OneOf(std::vector<std::string> words) {
  std::string expected = "one of " + absl::StrJoin(words, ", ");
  std::string shown = absl::StrJoin(words, "|");
  return Expect(std::move(expected), std::move(shown),
                [words = std::move(words)](const std::string& text) { return std::ranges::find(words, text) != words.end(); });
}

CLI::Validator TrueOrFalse() {
  return Expect("true or false", "", [](const std::string& text) { return text == "true" || text == "false"; });
}

CLI::Validator HostAndPortOrNothing() {
  return Expect("HOST:PORT, such as 127.0.0.1:8081 or [::]:8081", "HOST:PORT",
                [](const std::string& text) { return text.empty() || ParseHostAndPort(text).has_value(); });
}

}  // namespace trainyard::control
