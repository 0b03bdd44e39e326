// A number for people, which may be none.
#pragma once

#include <string>

namespace trainyard::engine {

// "NaN", "infinite" or "-infinite"; a finite value as "%g".
std::string NumberText(double value);

}  // namespace trainyard::engine
