#include "trainer/base/parse_json.h"

#include <nlohmann/json.hpp>

namespace trainyard::engine {
namespace {

template <typename Json>
Json Parse(std::string_view text) {
  bool too_deep = false;
  const auto check = [&too_deep](int depth, typename Json::parse_event_t event, Json&) {
    using Event = typename Json::parse_event_t;
    const bool opens = event == Event::array_start || event == Event::object_start;  // in `depth` others
    too_deep = too_deep || (opens && depth >= kMostJsonLevels);
    return !too_deep;
  };
  Json value = Json::parse(text, check, /*allow_exceptions=*/false);
  if (too_deep) return Json(Json::value_t::discarded);
  return value;
}

}  // namespace

nlohmann::json ParseJson(std::string_view text) { return Parse<nlohmann::json>(text); }
nlohmann::ordered_json ParseOrderedJson(std::string_view text) { return Parse<nlohmann::ordered_json>(text); }

}  // namespace trainyard::engine
