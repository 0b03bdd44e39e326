#include "operator/api/field_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/api/text.h"

namespace trainyard::control {
namespace {

// The smallest number of single-character edits from one name to the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Shown(const nlohmann::json& value) { return Head(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 80); }

std::string_view NearestName(std::string_view name, const std::vector<std::string>& known) {
  std::string_view best;
  size_t distance = 3;
  for (const std::string& one : known) {
    if (const size_t d = EditDistance(name.substr(0, 64), one); d < distance) {
      distance = d;
      best = one;
    }
  }
  return best;
}

std::string UnknownField(std::string_view name, const std::vector<std::string>& known) {
  const std::string_view nearest = NearestName(name, known);
  return nearest.empty() ? "unknown field; remove it (kubectl explain lists the known ones)"
                         : fmt::format("unknown field; did you mean \"{}\"?", nearest);
}

}  // namespace trainyard::control
