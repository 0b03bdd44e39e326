#include "trainer/serve/json_body.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "trainer/base/printable.h"
#include "trainer/serve/quoted.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using Kind = JsonValue::Kind;

constexpr double kNull = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMostNameBytes = 60;  // of a name in a message

// A list or object that is not closed yet.
struct Open {
  JsonValue value;
  std::string key;                            // of an object: the field that comes
  size_t count = 0;                           // of a list: its elements
  std::optional<std::vector<int64_t>> inner;  // of a list of numbers: the shape of each element
  bool nulls = false;                         // of a list of numbers: all of them are null so far, and texts may follow
};

// Appends with less room to spare than a vector takes by itself.
template <typename Item>
void Append(std::vector<Item>& items, Item item) {
  if (items.size() == items.capacity()) items.reserve(items.size() + items.size() / 4 + 1);
  items.push_back(std::move(item));
}

class BodyReader final : public nlohmann::json_sax<json> {
 public:
  explicit BodyReader(size_t body_bytes) : body_bytes_(body_bytes), most_values_(MostJsonValues(body_bytes)) {}

  bool null() override {
    const bool among_numbers = !open_.empty() && open_.back().value.kind == Kind::kList && open_.back().value.items.empty();
    return among_numbers ? PutNumber(kNull) : Put(JsonValue());
  }
  bool boolean(bool value) override {
    JsonValue flag;
    flag.kind = Kind::kBool;
    flag.flag = value;
    return Put(std::move(flag));
  }
  bool number_integer(number_integer_t value) override { return PutNumber(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return PutNumber(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return PutNumber(value); }
  bool string(string_t& value) override {
    JsonValue text;
    text.kind = Kind::kText;
    text.text = std::move(value);
    return Put(std::move(text));
  }
  bool binary(binary_t&) override { return Refuse("found bytes"); }
  bool start_object(size_t) override { return Begin(Kind::kObject); }
  bool start_array(size_t) override { return Begin(Kind::kList); }
  bool key(string_t& name) override {
    Open& object = open_.back();
    object.key = std::move(name);
    const bool twice = object.value.Has(object.key);
    if (object.value.fields.size() > kMostFields) return Refuse(fmt::format("found more than {} fields", kMostFields));
    return !twice || Refuse("the field is given twice");
  }
  bool end_object() override { return End(); }
  bool end_array() override { return End(); }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    if (problem_.empty()) problem_ = fmt::format("found invalid JSON at byte {} of the body, expected a JSON object", position);
    return false;
  }

  absl::StatusOr<JsonValue> Result(bool parsed) {
    if (!parsed) return absl::InvalidArgumentError(problem_.empty() ? "found invalid JSON, expected a JSON object" : problem_);
    return std::move(root_);
  }

 private:
  static constexpr size_t kMostFields = 1024;  // of one object: their names are compared one by one

  // "inputs[0].data[3]"
  std::string Path() const {
    std::string path;
    for (const Open& open : open_) {
      if (open.value.kind == Kind::kList) {
        path += fmt::format("[{}]", open.count);
      } else {
        path += fmt::format("{}{}", path.empty() ? "" : ".", Printable(open.key.substr(0, kMostNameBytes)));
      }
    }
    return path.empty() ? "the body" : path;
  }
  bool Refuse(std::string_view message) {
    if (problem_.empty()) problem_ = fmt::format("{}: {}", Path(), message);
    return false;
  }
  bool Begin(Kind kind) {
    if (open_.empty() && kind != Kind::kObject) return Refuse("found a list, expected an object");
    if (open_.size() >= kMostJsonDepth) return Refuse(fmt::format("found more than {} lists and objects in each other", kMostJsonDepth));
    open_.emplace_back().value.kind = kind;
    return true;
  }
  bool End() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    JsonValue& value = closed.value;
    if (value.kind == Kind::kList && value.items.empty()) {
      value.kind = Kind::kNumbers;
      value.shape = {static_cast<int64_t>(closed.count)};
      if (closed.inner) value.shape.insert(value.shape.end(), closed.inner->begin(), closed.inner->end());
      const bool in_list = !open_.empty() && open_.back().value.kind == Kind::kList;
      if (closed.nulls && !in_list) return PutNulls(value);
      return PutNumbers(std::move(value), closed.nulls);
    }
    return Put(std::move(value));
  }
  bool PutNumber(double value) {
    if (open_.empty() || open_.back().value.kind != Kind::kList) {
      JsonValue number;
      number.kind = Kind::kNumber;
      number.number = value;
      return Put(std::move(number));
    }
    Open& list = open_.back();
    const bool null = std::isnan(value);
    const std::string_view found = null ? "null" : "a number";
    if (!list.value.items.empty()) return Refuse(fmt::format("found {}, expected a value as those before it", found));
    if (list.count > 0 && !list.inner->empty()) return Refuse(fmt::format("found {}, expected a list as those before it", found));
    if (list.count == 0) list.inner.emplace();
    list.nulls = null && (list.nulls || list.count == 0);
    ++list.count;
    list.value.numbers.push_back(value);
    return true;
  }
  // `nulls`: all of them are null.
  bool PutNumbers(JsonValue&& value, bool nulls) {
    if (open_.empty() || open_.back().value.kind != Kind::kList) return Put(std::move(value));
    Open& list = open_.back();
    if (!list.value.items.empty() && nulls) return PutNulls(value);
    if (!list.value.items.empty()) return Refuse("found a list of numbers, expected a value as those before it");
    if (list.count > 0 && *list.inner != value.shape) {
      return Refuse(fmt::format("found {}, expected one of shape [{}] as those before it", value.Found(), fmt::join(*list.inner, ", ")));
    }
    list.inner = value.shape;
    list.nulls = nulls && (list.nulls || list.count == 0);
    ++list.count;
    if (list.value.numbers.empty()) {
      list.value.numbers = std::move(value.numbers);
    } else {
      list.value.numbers.insert(list.value.numbers.end(), value.numbers.begin(), value.numbers.end());
    }
    return true;
  }
  // A list of nothing but null as a list of values.
  bool PutNulls(const JsonValue& nulls) { return Count(nulls.numbers.size()) && Put(NullsOf(nulls.shape)); }
  static JsonValue NullsOf(std::span<const int64_t> shape) {
    JsonValue list;
    if (shape.empty()) return list;
    list.kind = Kind::kList;
    list.items.assign(static_cast<size_t>(shape[0]), NullsOf(shape.subspan(1)));
    return list;
  }
  bool Count(size_t values) {
    values_ += values;
    if (values_ > most_values_) {
      return Refuse(
          fmt::format("found more than {} values, the most of a body of {} bytes, beside numbers in lists, which do not count; send a list "
                      "of numbers for each column, or fewer examples",
                      most_values_, body_bytes_));
    }
    return true;
  }
  bool Put(JsonValue&& value) {
    if (!Count(1)) return false;
    if (open_.empty()) {
      if (value.kind != Kind::kObject) return Refuse(fmt::format("found {}, expected an object", value.Found()));
      root_ = std::move(value);
      return true;
    }
    Open& open = open_.back();
    if (open.value.kind == Kind::kObject) {
      Append(open.value.fields, JsonField{.name = open.key, .value = std::move(value)});
      return true;
    }
    if (open.nulls) {  // those before it are texts that are missing
      if (!Count(open.value.numbers.size())) return false;
      std::vector<int64_t> shape = *open.inner;
      shape.insert(shape.begin(), static_cast<int64_t>(open.count));
      open.value.items = NullsOf(shape).items;
      open.value.numbers.clear();
      open.nulls = false;
    }
    if (open.count > open.value.items.size()) return Refuse(fmt::format("found {}, expected a number as those before it", value.Found()));
    ++open.count;
    Append(open.value.items, std::move(value));
    return true;
  }

  const size_t body_bytes_;
  const size_t most_values_;
  std::vector<Open> open_;
  size_t values_ = 0;
  JsonValue root_;
  std::string problem_;
};

}  // namespace

const JsonValue* JsonValue::Find(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &JsonField::name);
  return found == fields.end() || found->value.kind == Kind::kNull ? nullptr : &found->value;
}

bool JsonValue::Has(std::string_view name) const { return std::ranges::find(fields, name, &JsonField::name) != fields.end(); }

std::string JsonValue::Found() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return flag ? "true" : "false";
    case Kind::kNumber:
      return fmt::format("{}", number);
    case Kind::kText:
      return InQuotes(text);
    case Kind::kNumbers:
      return fmt::format("a list of shape [{}]", fmt::join(shape, ", "));
    case Kind::kList:
      return fmt::format("a list of {}", items.size());
    case Kind::kObject:
      return "an object";
  }
  return "";
}

absl::StatusOr<JsonValue> ParseJsonBody(std::string_view body) {
  BodyReader reader(body.size());
  const bool parsed = json::sax_parse(body, &reader);
  return reader.Result(parsed);
}

std::string JsonText(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace trainyard::engine
