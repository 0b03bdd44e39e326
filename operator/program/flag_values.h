// What the values of flags may be, as checks of CLI11 whose refusals are in the words of our other
// errors: found "x", expected a whole number from 1 to 64.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace trainyard::control {

CLI::Validator WholeNumber(int least, int most);
CLI::Validator NumberFrom(double least);
CLI::Validator NumberAbove(double bound);
CLI::Validator OneOf(std::vector<std::string> words);
CLI::Validator TrueOrFalse();
// "" or what ParseHostAndPort reads.
CLI::Validator HostAndPortOrNothing();

}  // namespace trainyard::control
