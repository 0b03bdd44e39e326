#include "operator/api/quantity.h"

#include <array>
#include <cctype>
#include <sstream>
#include <utility>

namespace trainyard::control {
namespace {

constexpr absl::uint128 kThousandth = 1000;
constexpr int kMaxDigits = 24;    // of the number as written
constexpr int kMaxExponent = 18;  // of ten, as "e18"
constexpr int kThousandthPower = 3;
constexpr int kMostUnitsPower = 18;

absl::uint128 PowerOfTen(int exponent) {
  absl::uint128 power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

constexpr std::array<std::pair<std::string_view, int>, 6> kBinary = {
    {{"Ki", 10}, {"Mi", 20}, {"Gi", 30}, {"Ti", 40}, {"Pi", 50}, {"Ei", 60}}};
constexpr std::array<std::pair<std::string_view, int>, 10> kDecimal = {
    {{"", 0}, {"n", -9}, {"u", -6}, {"m", -3}, {"k", 3}, {"M", 6}, {"G", 9}, {"T", 12}, {"P", 15}, {"E", 18}}};

// The power of ten that the suffix stands for; binary suffixes are not among them.
std::optional<int> TenOf(std::string_view suffix) {
  for (const auto& [name, power] : kDecimal) {
    if (suffix == name) return power;
  }
  if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E')) return std::nullopt;
  suffix.remove_prefix(1);
  const bool negative = suffix[0] == '-';
  if (negative || suffix[0] == '+') suffix.remove_prefix(1);
  if (suffix.empty() || suffix.size() > 2) return std::nullopt;
  int exponent = 0;
  for (const char c : suffix) {
    if (c < '0' || c > '9') return std::nullopt;
    exponent = exponent * 10 + (c - '0');
  }
  if (exponent > kMaxExponent) return std::nullopt;
  return negative ? -exponent : exponent;
}

// digits * factor / 10^places thousandths, rounded up.
std::optional<absl::uint128> Scaled(absl::uint128 digits, absl::uint128 factor, int places) {
  if (factor != 0 && digits > absl::Uint128Max() / factor) return std::nullopt;
  constexpr int kMostPlaces = 38;  // that a divisor can have; no number has as many digits
  if (places > kMostPlaces) return digits == 0 ? 0 : 1;
  const absl::uint128 divisor = PowerOfTen(places);
  const absl::uint128 product = digits * factor;
  const absl::uint128 value = product / divisor + (product % divisor == 0 ? 0 : 1);
  if (value > PowerOfTen(kMostUnitsPower + kThousandthPower)) return std::nullopt;
  return value;
}

}  // namespace

std::optional<absl::uint128> ParseQuantity(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  absl::uint128 digits = 0;
  int count = 0;
  int places = 0;
  bool point = false;
  size_t i = 0;
  for (; i < text.size() && (text[i] == '.' || std::isdigit(static_cast<unsigned char>(text[i])) != 0); ++i) {
    if (text[i] == '.') {
      if (point) return std::nullopt;
      point = true;
      continue;
    }
    if (++count > kMaxDigits) return std::nullopt;
    digits = digits * 10 + static_cast<unsigned>(text[i] - '0');
    if (point) ++places;
  }
  if (count == 0) return std::nullopt;
  const std::string_view suffix = text.substr(i);
  for (const auto& [name, bits] : kBinary) {
    if (suffix == name) return Scaled(digits, (absl::uint128(1) << bits) * kThousandth, places);
  }
  const std::optional<int> ten = TenOf(suffix);
  if (!ten) return std::nullopt;
  const int power = *ten + kThousandthPower;
  return power >= 0 ? Scaled(digits, PowerOfTen(power), places) : Scaled(digits, 1, places - power);
}

std::string FormatQuantity(absl::uint128 thousandths) {
  std::ostringstream text;
  if (thousandths % kThousandth != 0) {
    text << thousandths << "m";
    return text.str();
  }
  const absl::uint128 units = thousandths / kThousandth;
  for (size_t i = kBinary.size(); i-- > 1 && units != 0;) {  // not by Ki: 2048 of something is no "2Ki"
    const absl::uint128 unit = absl::uint128(1) << kBinary[i].second;
    if (units % unit != 0) continue;
    text << units / unit << kBinary[i].first;
    return text.str();
  }
  text << units;
  return text.str();
}

}  // namespace trainyard::control
