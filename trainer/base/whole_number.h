// Whole numbers of JSON from outside. To cast a number beyond the range of an integer, as
// json::get<int64_t>() does with 1e300, is undefined.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace trainyard::engine {

// 3.0 counts; 3.5, 1e300, 2^63 and what is no number do not. A number with a fraction part or an
// exponent counts up to 2^53, where it is exact.
std::optional<int64_t> WholeNumber(const nlohmann::json& value);
std::optional<int64_t> WholeNumber(const nlohmann::ordered_json& value);

// The same; throws json::type_error as get() does, where it is none or T cannot hold it.
template <typename T, typename Json>
T GetWhole(const Json& value) {
  const std::optional<int64_t> number = WholeNumber(value);
  if (!number || !std::in_range<T>(*number)) {
    throw Json::type_error::create(302, "type must be a whole number that fits, but is " + std::string(value.type_name()), &value);
  }
  return static_cast<T>(*number);
}

// As json::value() does: `fallback` where the object has no such field.
template <typename Json>
int64_t WholeField(const Json& object, const char* name, int64_t fallback) {
  return object.contains(name) ? GetWhole<int64_t>(object.at(name)) : fallback;
}

}  // namespace trainyard::engine
