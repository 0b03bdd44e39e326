#include "trainer/report/number_text.h"

#include <fmt/format.h>

#include <cmath>

namespace trainyard::engine {
namespace {

constexpr double kLong = 1e6;  // from here on the exponent is shorter

}  // namespace

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  return fmt::format("{:g}", value);
}

std::string MetricText(double value) {
  if (!std::isfinite(value)) return NumberText(value);
  const double size = std::abs(value);
  const bool four_decimals = value == 0 || (size >= 1e-3 && size < kLong);
  return four_decimals ? fmt::format("{:.4f}", value) : fmt::format("{:.4g}", value);
}

std::string PerplexityText(double value) { return std::abs(value) < kLong ? fmt::format("{:.2f}", value) : MetricText(value); }

}  // namespace trainyard::engine
