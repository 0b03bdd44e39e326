#include "trainer/config/job_config_text.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "trainer/base/parse_json.h"
#include "trainer/base/strict_json.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxPathBytes = 512;          // of a path whose line is kept
constexpr size_t kMaxCost = 4 * kMaxJobBytes;  // bytes of texts and kValueCost for each value, aliases expanded
constexpr size_t kValueCost = 16;

absl::Status TooLarge(std::string_view source, size_t bytes) {
  return absl::InvalidArgumentError(fmt::format("{}: found {} bytes, at most {} are read", source, bytes, kMaxJobBytes));
}

bool Contains(std::initializer_list<std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// `text` as a number of T when all of it is one.
template <typename T>
std::optional<T> Exactly(std::string_view text, auto... format) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, format...);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// A plain scalar by the core schema (YAML 1.2, section 10.3.2), without octal and with what
// overflows left as text.
json Resolve(const std::string& text) {
  if (Contains({"", "~", "null", "Null", "NULL"}, text)) return nullptr;
  if (Contains({"true", "True", "TRUE"}, text)) return true;
  if (Contains({"false", "False", "FALSE"}, text)) return false;
  std::string_view digits = text;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  if (digits.starts_with("0x")) {
    const auto number = Exactly<uint64_t>(digits.substr(2), 16);
    return number ? json(*number) : json(text);
  }
  std::string_view unsigned_digits = digits;
  if (unsigned_digits.starts_with('-')) unsigned_digits.remove_prefix(1);
  if (unsigned_digits.empty()) return text;
  // Not inf and nan, which from_chars would take, and not 007, which is octal to some readers.
  const char first = unsigned_digits[0];
  if (!(first >= '0' && first <= '9') && first != '.') return text;
  if (unsigned_digits.size() > 1 && first == '0' && unsigned_digits[1] >= '0' && unsigned_digits[1] <= '9') return text;
  if (const auto number = Exactly<int64_t>(digits)) return *number;
  if (const auto number = Exactly<uint64_t>(digits)) return *number;
  if (const auto number = Exactly<double>(digits)) return *number;
  return text;
}

// Builds JSON from yaml-cpp's events. Stops the parser by throwing yaml-cpp's own exception, which
// ReadYaml catches.
class JsonEvents final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    // yaml-cpp gives one document without text after the other for this, and reads no further.
    if (start_ == mark.pos) Refuse(mark, "found a comma or a colon outside of any list and object");
    start_ = mark.pos;
    is_second_ = !root_.is_null();
    anchors_.clear();
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!is_second_) Add(mark, anchor, nullptr, kValueCost);  // nothing follows a "---" at the end
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) Refuse(mark, "found an alias within its own anchor");
    Add(mark, 0, found->second.value, found->second.cost);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& text) override {
    RefuseSecond(mark);
    if (IsName()) return SetName(mark, text);
    const bool plain = tag.empty() || tag == "?";
    const bool string = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!plain && !string) Refuse(mark, fmt::format("found the tag {}, expected none", tag.substr(0, kMaxNameBytes)));
    Add(mark, anchor, string ? json(text) : Resolve(text), kValueCost + text.size());
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    RefuseSecond(mark);
    Open(mark, anchor, json::array());
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    RefuseSecond(mark);
    Open(mark, anchor, json::object());
  }
  void OnMapEnd() override { Close(); }

  JobText Take() && { return {.value = std::move(root_), .lines = std::move(lines_)}; }

 private:
  struct Anchored {
    json value;
    size_t cost = 0;
  };
  struct Container {
    json value;
    std::string path;
    YAML::Mark mark;
    YAML::anchor_t anchor = 0;
    size_t cost_before = 0;
    std::optional<std::string> name;  // of the field whose value comes next
  };

  [[noreturn]] static void Refuse(const YAML::Mark& mark, const std::string& message) { throw YAML::ParserException(mark, message); }

  void RefuseSecond(const YAML::Mark& mark) const {
    if (is_second_) Refuse(mark, "found a second document, expected one TrainingJob");
  }

  void Spend(const YAML::Mark& mark, size_t cost) {
    cost_ += cost;
    if (cost_ > kMaxCost)
      Refuse(mark, fmt::format("found more values than any job has (aliases expanded, at most some {})", kMaxCost / kValueCost));
  }

  bool IsName() const { return !open_.empty() && open_.back().value.is_object() && !open_.back().name.has_value(); }

  void SetName(const YAML::Mark& mark, const std::string& name) {
    Container& object = open_.back();
    if (name.size() > kMaxNameBytes)
      Refuse(mark, fmt::format("found a field name of {} bytes, at most {} are read", name.size(), kMaxNameBytes));
    if (object.value.contains(name)) Refuse(mark, fmt::format("field \"{}\" is given twice", name));
    Spend(mark, kValueCost + name.size());
    object.name = name;
    KeepLine(ChildPath(), mark);
  }

  // The path of the value that comes next.
  std::string ChildPath() const {
    if (open_.empty()) return "";
    const Container& parent = open_.back();
    if (parent.path.size() > kMaxPathBytes) return parent.path;
    if (parent.value.is_array()) return fmt::format("{}[{}]", parent.path, parent.value.size());
    return parent.path.empty() ? *parent.name : fmt::format("{}.{}", parent.path, *parent.name);
  }
  void KeepLine(const std::string& path, const YAML::Mark& mark) {
    if (path.size() <= kMaxPathBytes) lines_.emplace(path, mark.line + 1);
  }

  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, json container) {
    if (IsName()) Refuse(mark, "found a list or an object, expected a field name");
    if (open_.size() >= kMostJsonLevels) Refuse(mark, fmt::format("found more than {} levels of lists and objects", kMostJsonLevels));
    std::string path = ChildPath();
    if (!open_.empty() && open_.back().value.is_array()) KeepLine(path, mark);
    open_.push_back(
        {.value = std::move(container), .path = std::move(path), .mark = mark, .anchor = anchor, .cost_before = cost_, .name = {}});
    Spend(mark, kValueCost);
  }
  void Close() {
    Container closed = std::move(open_.back());
    open_.pop_back();
    if (closed.anchor != 0) {
      const size_t cost = cost_ - closed.cost_before;
      Spend(closed.mark, cost);
      anchors_[closed.anchor] = {.value = closed.value, .cost = cost};
    }
    Attach(std::move(closed.value));
  }
  void Add(const YAML::Mark& mark, YAML::anchor_t anchor, json value, size_t cost) {
    if (IsName()) Refuse(mark, "found an alias or nothing, expected a field name");
    Spend(mark, cost);
    if (!open_.empty() && open_.back().value.is_array()) KeepLine(ChildPath(), mark);
    if (anchor != 0) anchors_[anchor] = {.value = value, .cost = cost};
    Attach(std::move(value));
  }
  void Attach(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().value.is_array()) {
      open_.back().value.push_back(std::move(value));
    } else {
      open_.back().value[*open_.back().name] = std::move(value);
      open_.back().name.reset();
    }
  }

  json root_;
  std::optional<int> start_;  // of the document, in bytes
  bool is_second_ = false;    // of the documents that are not empty
  PathLines lines_;
  std::vector<Container> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  size_t cost_ = 0;
};

}  // namespace

absl::StatusOr<JobText> ReadYaml(std::string_view text, std::string_view source) {
  if (text.size() > kMaxJobBytes) return TooLarge(source, text.size());
  JsonEvents events;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(fmt::format("{}:{}: not a job file: {}", source, error.mark.line + 1, error.msg));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(fmt::format("{}: not YAML: {}", source, error.what()));
  }
  return std::move(events).Take();
}

absl::StatusOr<JobText> ReadJson(std::string_view text, std::string_view source) {
  if (text.size() > kMaxJobBytes) return TooLarge(source, text.size());
  absl::StatusOr<json> value = ParseStrictJson(text, kMaxNameBytes);
  if (!value.ok()) return absl::InvalidArgumentError(fmt::format("{}: {}", source, std::string(value.status().message())));
  return JobText{.value = *std::move(value), .lines = {}};
}

absl::StatusOr<JobText> ReadJobText(std::string_view text, std::string_view source) {
  return source.ends_with(".json") ? ReadJson(text, source) : ReadYaml(text, source);
}

}  // namespace trainyard::engine
