#include "tests/fake_apiserver/selector.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

namespace trainyard::control {
namespace {

using Lookup = std::function<std::optional<std::string>(const std::string&)>;

bool Matches(const std::string& selector, const Lookup& lookup) {
  std::istringstream terms(selector);
  for (std::string term; std::getline(terms, term, ',');) {
    const size_t equals = term.find('=');
    if (equals == std::string::npos) {
      const bool negated = term.starts_with('!');
      if (lookup(negated ? term.substr(1) : term).has_value() == negated) return false;
      continue;
    }
    const bool negated = equals > 0 && term[equals - 1] == '!';
    const std::string key = term.substr(0, negated ? equals - 1 : equals);
    const std::string value =
        term.substr(term.find_first_not_of('=', equals) == std::string::npos ? term.size() : term.find_first_not_of('=', equals));
    if ((lookup(key).value_or("") == value) == negated) return false;
  }
  return true;
}

}  // namespace

bool MatchesLabels(const std::string& selector, const nlohmann::json& object) {
  return Matches(selector, [&](const std::string& key) -> std::optional<std::string> {
    const nlohmann::json labels = object.value("/metadata/labels"_json_pointer, nlohmann::json::object());
    return labels.contains(key) ? std::optional(labels[key].get<std::string>()) : std::nullopt;
  });
}

bool MatchesFields(const std::string& selector, const nlohmann::json& object) {
  return Matches(selector, [&](const std::string& path) -> std::optional<std::string> {
    std::string pointer = "/" + path;
    for (char& c : pointer) c = c == '.' ? '/' : c;
    return object.value(nlohmann::json::json_pointer(pointer), "");
  });
}

}  // namespace trainyard::control
