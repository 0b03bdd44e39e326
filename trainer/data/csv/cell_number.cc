#include "trainer/data/csv/cell_number.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

namespace trainyard::engine {
namespace {

constexpr size_t kQuotedCellBytes = 40;

// Also one that is infinite or none.
bool ReadAny(std::string_view text, double& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool Read(std::string_view text, double& value) { return ReadAny(text, value) && std::isfinite(value); }

bool ReadWith(std::string_view cell, char decimal, double& value) {
  if (decimal == '.') return Read(cell, value);
  if (cell.find('.') != std::string_view::npos) return false;
  std::string text(cell);
  std::ranges::replace(text, decimal, '.');
  return Read(text, value);
}

}  // namespace

bool IsInfinite(std::string_view cell) {
  double value = 0;
  return ReadAny(cell, value) && std::isinf(value);
}

absl::StatusOr<double> NumberOf(std::string_view cell, char decimal) {
  double value = 0;
  if (ReadWith(cell, decimal, value)) return value;
  const char* const question =
      decimal == '.' ? "is the column of type category?" : "is the column of type category, or `decimal` another character?";
  return absl::InvalidArgumentError(fmt::format("found \"{}{}\", expected a finite number; {}", cell.substr(0, kQuotedCellBytes),
                                                cell.size() > kQuotedCellBytes ? "…" : "", question));
}

}  // namespace trainyard::engine
