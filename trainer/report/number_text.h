// Numbers for people, which may be none.
#pragma once

#include <string>

namespace trainyard::engine {

// "NaN", "infinite" or "-infinite"; a finite value as "%g".
std::string NumberText(double value);

// A loss or a score: with four decimals, as "0.0931", or where these would hide it or fill a line
// with four digits, as "2.076e+35" and "4.1e-06".
std::string MetricText(double value);
// With two decimals, or like a very large loss.
std::string PerplexityText(double value);

}  // namespace trainyard::engine
