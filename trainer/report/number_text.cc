#include "trainer/report/number_text.h"

#include <fmt/format.h>

#include <cmath>

namespace trainyard::engine {

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  return fmt::format("{:g}", value);
}

}  // namespace trainyard::engine
