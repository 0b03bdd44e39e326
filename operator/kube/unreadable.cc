#include "operator/kube/unreadable.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

// Follows the text to the end of its metadata. nlohmann's parser keeps no stack of calls: depth is
// no danger.
class Reader : public nlohmann::json_sax<Json> {
 public:
  Reader(bool event, Unreadable& found) : event_(event), found_(found) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool string(string_t& text) override {
    if (event_ && depth_ == 1 && keys_[0] == "type") found_.gone = text == "DELETED";
    if (!InMetadata()) return true;
    const std::string& key = keys_[depth_ - 1];
    if (key == "namespace") found_.ns = text;
    if (key == "name") found_.name = text;
    if (key == "uid") found_.uid = text;
    if (key == "resourceVersion") found_.resource_version = text;
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ >= 1 && depth_ <= keys_.size()) keys_[depth_ - 1] = text.substr(0, kMaxKey);
    return true;
  }
  bool start_object(std::size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr size_t kMaxKey = 20;

  bool InMetadata() const {
    return event_ ? depth_ == 3 && keys_[0] == "object" && keys_[1] == "metadata" : depth_ == 2 && keys_[0] == "metadata";
  }
  bool Open() {
    ++depth_;
    return true;
  }
  // False at the end of metadata: enough is known.
  bool Close() {
    const bool enough = InMetadata();
    --depth_;
    return !enough;
  }

  const bool event_;
  Unreadable& found_;
  size_t depth_ = 0;
  std::array<std::string, 3> keys_;
};

Unreadable Identify(std::string_view text, bool event, std::string problem) {
  Unreadable found{.problem = std::move(problem)};
  Reader reader(event, found);
  (void)Json::sax_parse(text, &reader);
  return found;
}

}  // namespace

Unreadable IdentifyObject(std::string_view text, std::string problem) { return Identify(text, false, std::move(problem)); }

Unreadable IdentifyEvent(std::string_view text, std::string problem) { return Identify(text, true, std::move(problem)); }

}  // namespace trainyard::control
