#include "trainer/base/whole_number.h"

#include <cmath>

namespace trainyard::engine {
namespace {

constexpr double kLargestExact = 0x1p53;

template <typename Json>
std::optional<int64_t> Whole(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.template get<uint64_t>();
    return std::in_range<int64_t>(number) ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.template get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto real = value.template get<double>();
  if (!(std::abs(real) <= kLargestExact) || real != std::floor(real)) return std::nullopt;
  return static_cast<int64_t>(real);
}

}  // namespace

std::optional<int64_t> WholeNumber(const nlohmann::json& value) { return Whole(value); }
std::optional<int64_t> WholeNumber(const nlohmann::ordered_json& value) { return Whole(value); }

}  // namespace trainyard::engine
