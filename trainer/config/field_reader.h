// Reads the fields of one JSON object by name, type and range. Of each mistake it says where it is,
// what was found and what is expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/config/field_errors.h"

namespace trainyard::engine {

// The name of a value of the wrong kind in a message: 3, "x" (shortened), true, nothing, an object,
// a list.
std::string Found(const nlohmann::json& value);

// Bounds of a whole number; both belong to the range.
struct Integers {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};
// Bounds of a number. They belong to the range unless `above` or `below` is set.
struct Numbers {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above = false;
  bool below = false;
};

// Every getter marks its field as known. A field that is absent or null gives the fallback. Without
// a fallback it gives the error "missing", and a value that is only good for going on with the
// reading. A wrong one adds an error. Reads from `object`, which must outlive the reader. Not
// thread-safe.
class FieldReader {
 public:
  // Not an object: one error, and every field is absent without further errors.
  FieldReader(const nlohmann::json& object, std::string path, FieldErrors& errors);

  const std::string& path() const { return path_; }
  // "spec.training.optimizer" + "learningRate" → "spec.training.optimizer.learningRate"
  std::string PathOf(std::string_view name) const;
  // Reads the fields of `value`, which stands under `name`.
  FieldReader Inside(std::string_view name, const nlohmann::json& value) const { return FieldReader(value, PathOf(name), errors_); }
  void Error(std::string_view name, std::string_view message) { errors_.Add(PathOf(name), message); }
  // The value is none of `words`; a word that is near to it is offered.
  void WrongWord(std::string_view name, const nlohmann::json& value, const std::vector<std::string>& words);

  // The value as it stands, or null.
  const nlohmann::json* Get(std::string_view name);
  // Like Get, but its absence is an error.
  const nlohmann::json* Require(std::string_view name, std::string_view expected);
  int64_t Integer(std::string_view name, Integers range, std::optional<int64_t> fallback = std::nullopt);
  double Number(std::string_view name, Numbers range, std::optional<double> fallback = std::nullopt);
  bool Bool(std::string_view name, bool fallback);
  std::string Text(std::string_view name, std::optional<std::string> fallback = std::nullopt);
  template <typename T>
  T Choice(std::string_view name, std::span<const std::pair<std::string_view, T>> choices, std::optional<T> fallback = std::nullopt);
  template <typename T>
  T Choice(std::string_view name, std::initializer_list<std::pair<std::string_view, T>> choices, std::optional<T> fallback = std::nullopt) {
    return Choice(name, std::span(choices.begin(), choices.size()), fallback);
  }
  // A list of whole numbers, with a length from min_length to max_length.
  std::vector<int64_t> IntegerList(std::string_view name, Integers range, size_t min_length, size_t max_length);
  std::vector<std::string> TextList(std::string_view name);

  // Fields that other code reads.
  void Ignore(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) Know(name);
  }
  // Adds an error for each field that was not asked for; call it last.
  void RefuseOthers();

 private:
  void Know(std::string_view name);
  void Missing(std::string_view name, std::string_view expected);
  void Wrong(std::string_view name, const nlohmann::json& value, std::string_view expected);
  void MissingWord(std::string_view name, const std::vector<std::string>& words);

  const nlohmann::json* object_;  // null: it was not an object, which was told
  const std::string path_;
  FieldErrors& errors_;
  std::vector<std::string> known_;
};

// "a whole number from 1 to 8"
std::string Describe(Integers range);
// "a number above 0", "a number from 0 to below 1"
std::string Describe(Numbers range);
// Nothing when `value` is not a whole number of the range. A float without a fraction (1e3) is one.
std::optional<int64_t> AsInteger(const nlohmann::json& value, Integers range);
std::optional<double> AsNumber(const nlohmann::json& value, Numbers range);

template <typename T>
T FieldReader::Choice(std::string_view name, std::span<const std::pair<std::string_view, T>> choices, std::optional<T> fallback) {
  std::vector<std::string> words;
  for (const auto& choice : choices) words.emplace_back(choice.first);
  const nlohmann::json* value = Get(name);
  if (value == nullptr) {
    if (!fallback.has_value()) MissingWord(name, words);
    return fallback.value_or(choices.front().second);
  }
  for (const auto& [word, choice] : choices) {
    if (value->is_string() && value->get_ref<const std::string&>() == word) return choice;
  }
  WrongWord(name, *value, words);
  return choices.front().second;
}

}  // namespace trainyard::engine
