// The JSON of a request in little memory: a list of numbers, nested or not, is one vector with a
// shape. Nulls among the numbers are NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace trainyard::engine {

struct JsonField;

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBool, kNumber, kText, kNumbers, kList, kObject };

  Kind kind = Kind::kNull;
  bool flag = false;              // kBool
  double number = 0;              // kNumber
  std::string text;               // kText
  std::vector<int64_t> shape;     // kNumbers: its extents, outermost first
  std::vector<double> numbers;    // kNumbers: in C order; NaN for null, which JSON has no other use for
  std::vector<JsonValue> items;   // kList: of anything but numbers
  std::vector<JsonField> fields;  // kObject: each name once

  // A field of an object; null where it is absent or null, or this is not an object.
  const JsonValue* Find(std::string_view name) const;
  JsonValue* Find(std::string_view name) { return const_cast<JsonValue*>(std::as_const(*this).Find(name)); }
  bool Has(std::string_view name) const;  // null or not
  // "an object", "a list of shape [2, 3]", "3", "\"x\"" …: the word for it in a message.
  std::string Found() const;
};

struct JsonField {
  std::string name;
  JsonValue value;
};

inline constexpr size_t kMostJsonDepth = 16;
// Of a body of `bytes`: values that are not numbers in lists. Each takes up to 176 bytes.
constexpr size_t MostJsonValues(size_t bytes) { return (size_t{1} << 16) + bytes / 16; }

// The body is an object. InvalidArgument names the place and says what was found and expected: no
// JSON, a field that is given twice, lists of unequal length or depth, numbers among other things,
// too many values. Takes memory of about twenty times the body at most, and 16 MiB.
absl::StatusOr<JsonValue> ParseJsonBody(std::string_view body);

// The text of an answer's JSON. Bytes that are no UTF-8 are replaced.
std::string JsonText(const nlohmann::ordered_json& value);

}  // namespace trainyard::engine
