#include "trainer/base/strict_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainer/base/parse_json.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

// Looks at the events of a text without building its value. A callback of json::parse would do
// both, but walks the whole list at the end of each of its objects.
class FaultFinder final : public json::json_sax_t {
 public:
  explicit FaultFinder(size_t most_name_bytes) : most_name_bytes_(most_name_bytes) {}

  std::string Take() && { return std::move(fault_); }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(size_t /*size*/) override { return Open(); }
  bool start_array(size_t /*size*/) override { return Open(); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (name.size() > most_name_bytes_)
      return Refuse(fmt::format("found a field name of {} bytes, at most {} are read", name.size(), most_name_bytes_));
    if (!names_.back().insert(name).second) return Refuse(fmt::format("field \"{}\" is given twice", name));
    return true;
  }
  bool parse_error(size_t /*at*/, const std::string& /*token*/, const json::exception& error) override {
    const std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error at line 1 ..."
    return Refuse(fmt::format("not JSON: {}", what.substr(what.find("] ") + 2)));
  }

 private:
  bool Open() {
    if (names_.size() >= static_cast<size_t>(kMostJsonLevels))
      return Refuse(fmt::format("found more than {} levels of lists and objects", kMostJsonLevels));
    names_.emplace_back();
    return true;
  }
  bool Close() {
    names_.pop_back();
    return true;
  }
  bool Refuse(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }

  size_t most_name_bytes_;
  std::vector<std::set<std::string>> names_;  // of each list and object that is open
  std::string fault_;
};

}  // namespace

absl::StatusOr<json> ParseStrictJson(std::string_view text, size_t most_name_bytes) {
  FaultFinder finder(most_name_bytes);
  if (!json::sax_parse(text, &finder)) return absl::InvalidArgumentError(std::move(finder).Take());
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace trainyard::engine
