#include "trainer/config/field_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trainer/base/nearest_name.h"
#include "trainer/base/whole_number.h"

namespace trainyard::engine {
namespace {

constexpr size_t kLongestFoundText = 60;

}  // namespace

std::string Found(const nlohmann::json& value) {
  if (value.is_null()) return "nothing";
  if (value.is_object()) return "an object";
  if (value.is_array()) return value.empty() ? "an empty list" : "a list";
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    std::string shown = text.substr(0, kLongestFoundText);
    if (text.size() > shown.size()) shown += "…";
    // Bytes that are no UTF-8 become U+FFFD, control characters become escapes: the message stays
    // one printable line.
    return nlohmann::json(shown).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return value.dump();
}

std::string Describe(Integers range) {
  const bool bounded_below = range.min != std::numeric_limits<int64_t>::min();
  const bool bounded_above = range.max != std::numeric_limits<int64_t>::max();
  if (bounded_below && bounded_above) return fmt::format("a whole number from {} to {}", range.min, range.max);
  if (bounded_below) return fmt::format("a whole number >= {}", range.min);
  if (bounded_above) return fmt::format("a whole number <= {}", range.max);
  return "a whole number";
}

std::string Describe(Numbers range) {
  const bool bounded_below = std::isfinite(range.min);
  const bool bounded_above = std::isfinite(range.max);
  if (bounded_below && bounded_above) {
    return fmt::format("a number {} {} to {}{}", range.above ? "above" : "from", range.min, range.below ? "below " : "", range.max);
  }
  if (bounded_below) return fmt::format("a number {} {}", range.above ? "above" : ">=", range.min);
  if (bounded_above) return fmt::format("a number {} {}", range.below ? "below" : "<=", range.max);
  return "a number";
}

std::optional<int64_t> AsInteger(const nlohmann::json& value, Integers range) {
  const std::optional<int64_t> number = WholeNumber(value);
  if (!number || *number < range.min || *number > range.max) return std::nullopt;
  return number;
}

std::optional<double> AsNumber(const nlohmann::json& value, Numbers range) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < range.min || number > range.max) return std::nullopt;
  if ((range.above && number == range.min) || (range.below && number == range.max)) return std::nullopt;
  return number;
}

FieldReader::FieldReader(const nlohmann::json& object, std::string path, FieldErrors& errors)
    : object_(object.is_object() ? &object : nullptr), path_(std::move(path)), errors_(errors) {
  if (object_ == nullptr) errors_.Add(path_, fmt::format("found {}, expected an object", Found(object)));
}

std::string FieldReader::PathOf(std::string_view name) const {
  if (path_.empty()) return std::string(name);
  return name.empty() ? path_ : fmt::format("{}.{}", path_, name);
}

const nlohmann::json* FieldReader::Get(std::string_view name) {
  Know(name);
  if (object_ == nullptr) return nullptr;
  const auto field = object_->find(name);
  return field == object_->end() || field->is_null() ? nullptr : &*field;
}

const nlohmann::json* FieldReader::Require(std::string_view name, std::string_view expected) {
  const nlohmann::json* value = Get(name);
  if (value == nullptr) Missing(name, expected);
  return value;
}

void FieldReader::Know(std::string_view name) {
  if (std::ranges::find(known_, name) == known_.end()) known_.emplace_back(name);
}

void FieldReader::MissingWord(std::string_view name, const std::vector<std::string>& words) {
  Missing(name, fmt::format("one of {}", fmt::join(words, ", ")));
}

void FieldReader::WrongWord(std::string_view name, const nlohmann::json& value, const std::vector<std::string>& words) {
  const std::string_view nearest = value.is_string() ? NearestName(value.get_ref<const std::string&>(), words) : std::string_view();
  const std::string hint = nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
  Wrong(name, value, fmt::format("one of {}{}", fmt::join(words, ", "), hint));
}

void FieldReader::Missing(std::string_view name, std::string_view expected) {
  if (object_ != nullptr) Error(name, fmt::format("missing, expected {}", expected));
}

void FieldReader::Wrong(std::string_view name, const nlohmann::json& value, std::string_view expected) {
  Error(name, fmt::format("found {}, expected {}", Found(value), expected));
}

int64_t FieldReader::Integer(std::string_view name, Integers range, std::optional<int64_t> fallback) {
  const nlohmann::json* value = Get(name);
  if (value == nullptr) {
    if (!fallback.has_value()) Missing(name, Describe(range));
    return fallback.value_or(range.min);
  }
  if (const auto number = AsInteger(*value, range)) return *number;
  const bool too_large = value->is_number_unsigned() && !AsInteger(*value, {});
  Wrong(name, *value, too_large ? fmt::format("a whole number from {} to {}", range.min, range.max) : Describe(range));
  return fallback.value_or(range.min);
}

double FieldReader::Number(std::string_view name, Numbers range, std::optional<double> fallback) {
  const nlohmann::json* value = Get(name);
  if (value == nullptr) {
    if (!fallback.has_value()) Missing(name, Describe(range));
    return fallback.value_or(range.min);
  }
  if (const auto number = AsNumber(*value, range)) return *number;
  Wrong(name, *value, Describe(range));
  return fallback.value_or(range.min);
}

bool FieldReader::Bool(std::string_view name, bool fallback) {
  const nlohmann::json* value = Get(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Wrong(name, *value, "true or false");
  return fallback;
}

std::string FieldReader::Text(std::string_view name, std::optional<std::string> fallback) {
  const nlohmann::json* value = Get(name);
  if (value == nullptr) {
    if (!fallback.has_value()) Missing(name, "a text");
    return fallback.value_or("");
  }
  if (value->is_string()) return value->get<std::string>();
  Wrong(name, *value, "a text");
  return fallback.value_or("");
}

std::vector<int64_t> FieldReader::IntegerList(std::string_view name, Integers range, size_t min_length, size_t max_length) {
  const std::string expected = min_length == max_length
                                   ? fmt::format("a list of {}, each {}", min_length, Describe(range))
                                   : fmt::format("a list of {} to {}, each {}", min_length, max_length, Describe(range));
  std::vector<int64_t> list;
  const nlohmann::json* value = Require(name, expected);
  if (value == nullptr) return list;
  if (!value->is_array() || value->size() < min_length || value->size() > max_length) {
    Wrong(name, *value, expected);
    return list;
  }
  for (size_t i = 0; i < value->size(); ++i) {
    if (const auto number = AsInteger((*value)[i], range)) {
      list.push_back(*number);
    } else {
      Error(fmt::format("{}[{}]", name, i), fmt::format("found {}, expected {}", Found((*value)[i]), Describe(range)));
    }
  }
  return list;
}

std::vector<std::string> FieldReader::TextList(std::string_view name) {
  std::vector<std::string> list;
  const nlohmann::json* value = Get(name);
  if (value == nullptr) return list;
  if (!value->is_array()) {
    Wrong(name, *value, "a list of texts");
    return list;
  }
  for (size_t i = 0; i < value->size(); ++i) {
    if ((*value)[i].is_string()) {
      list.push_back((*value)[i].get<std::string>());
    } else {
      Error(fmt::format("{}[{}]", name, i), fmt::format("found {}, expected a text", Found((*value)[i])));
    }
  }
  return list;
}

void FieldReader::RefuseOthers() {
  if (object_ == nullptr) return;
  for (const auto& [name, value] : object_->items()) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    const std::string_view nearest = NearestName(name, known_);
    const std::string shown = Found(nlohmann::json(name));
    std::string hint;
    if (!nearest.empty()) {
      hint = fmt::format("did you mean \"{}\"?", nearest);
    } else {
      hint = fmt::format("known here: {}", fmt::join(known_, ", "));
    }
    // The name stands in the path as it is in the file. A name that would not read well there is
    // shortened and escaped.
    const std::string inner = shown.substr(1, shown.size() - 2);
    errors_.Add(PathOf(inner), fmt::format("unknown field; {}", hint));
  }
}

}  // namespace trainyard::engine
