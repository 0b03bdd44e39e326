// Tolerant reading of JSON that others wrote: a field that is absent or of another type reads as
// its default.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "operator/base/timestamp.h"

namespace trainyard::control::json_read {

inline const nlohmann::json* Find(const nlohmann::json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// The member, or a null value that can be read further.
inline const nlohmann::json& Get(const nlohmann::json& object, std::string_view key) {
  static const nlohmann::json null;
  const nlohmann::json* found = Find(object, key);
  return found == nullptr ? null : *found;
}

inline std::string String(const nlohmann::json& object, std::string_view key, std::string_view fallback = "") {
  const nlohmann::json& value = Get(object, key);
  return value.is_string() ? value.get<std::string>() : std::string(fallback);
}

// Whole numbers only; 3.0 counts, 3.5 and what does not fit do not.
inline std::optional<int64_t> Integer(const nlohmann::json& object, std::string_view key) {
  const nlohmann::json& value = Get(object, key);
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number <= static_cast<uint64_t>(INT64_MAX) ? std::optional<int64_t>(static_cast<int64_t>(number)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::isfinite(number) && number == std::floor(number) && std::fabs(number) < 9e15) return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

inline int Int(const nlohmann::json& object, std::string_view key, int fallback = 0) {
  const std::optional<int64_t> number = Integer(object, key);
  return number && *number >= INT32_MIN && *number <= INT32_MAX ? static_cast<int>(*number) : fallback;
}

inline std::optional<double> Number(const nlohmann::json& object, std::string_view key) {
  const nlohmann::json& value = Get(object, key);
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return std::isfinite(number) ? std::optional<double>(number) : std::nullopt;
}

inline bool Bool(const nlohmann::json& object, std::string_view key, bool fallback = false) {
  const nlohmann::json& value = Get(object, key);
  return value.is_boolean() ? value.get<bool>() : fallback;
}

// absl::InfinitePast() when absent or no time.
inline absl::Time Time(const nlohmann::json& object, std::string_view key) {
  const nlohmann::json& value = Get(object, key);
  return value.is_string() ? ParseTimestamp(value.get_ref<const std::string&>()) : absl::InfinitePast();
}

inline std::optional<absl::Time> OptionalTime(const nlohmann::json& object, std::string_view key) {
  const absl::Time time = Time(object, key);
  return time == absl::InfinitePast() ? std::nullopt : std::optional<absl::Time>(time);
}

// An object's or array's own text, compact; empty when absent.
inline std::string Text(const nlohmann::json& object, std::string_view key) {
  const nlohmann::json* value = Find(object, key);
  return value == nullptr ? "" : value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace trainyard::control::json_read
