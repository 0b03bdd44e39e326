// How a value is put into a pod that a template has begun.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace trainyard::control {

// The member as an object or array, made if it is absent or of another type.
inline nlohmann::json& Member(nlohmann::json& object, const char* key, nlohmann::json::value_t type) {
  nlohmann::json& member = object[key];
  if (member.type() != type) member = nlohmann::json(type);
  return member;
}

// Where the template sets nothing.
inline void SetDefault(nlohmann::json& object, const char* key, nlohmann::json value) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null() || (it->is_string() && it->get_ref<const std::string&>().empty())) object[key] = std::move(value);
}

}  // namespace trainyard::control
