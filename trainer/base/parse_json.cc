#include "trainer/base/parse_json.h"

#include <nlohmann/json.hpp>

namespace trainyard::engine {
namespace {

// Whether more lists and objects are within each other than may be. Of text that is no JSON the
// answer says nothing: it is refused anyway.
bool IsTooDeep(std::string_view text) {
  int levels = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text && c == '\\') {
      ++i;  // the character that is escaped
    } else if (c == '"') {
      in_text = !in_text;
    } else if (!in_text && (c == '[' || c == '{')) {
      if (++levels > kMostJsonLevels) return true;
    } else if (!in_text && (c == ']' || c == '}')) {
      --levels;
    }
  }
  return false;
}

// The levels are not counted by a callback of the parser: at the end of each object that looks at
// all others of its list.
template <typename Json>
Json Parse(std::string_view text) {
  if (IsTooDeep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

nlohmann::json ParseJson(std::string_view text) { return Parse<nlohmann::json>(text); }
nlohmann::ordered_json ParseOrderedJson(std::string_view text) { return Parse<nlohmann::ordered_json>(text); }

}  // namespace trainyard::engine
