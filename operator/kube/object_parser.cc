#include "operator/kube/object_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 100;

// A handler of nlohmann's SAX events that builds the document, except what the drop paths name.
class Builder {
 public:
  Builder(const std::vector<std::string>& drop_paths, const std::function<absl::Status(Json&&)>* on_item)
      : drop_paths_(drop_paths), on_item_(on_item) {}

  bool null() { return Value(nullptr); }
  bool boolean(bool value) { return Value(value); }
  bool number_integer(Json::number_integer_t value) { return Value(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Value(value); }
  bool number_float(Json::number_float_t value, const std::string& /*text*/) { return Value(value); }
  bool string(std::string& value) { return Value(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) { return Fail("binary value"); }

  bool start_object(size_t /*elements*/) { return Open(Json::value_t::object); }
  bool start_array(size_t /*elements*/) { return Open(Json::value_t::array); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool key(std::string& name) {
    if (skipping_ > 0) return true;
    path_.resize(levels_.back().path_size);
    if (!path_.empty()) path_ += '.';
    path_ += name;
    drop_next_ = std::find(drop_paths_.begin(), drop_paths_.end(), path_) != drop_paths_.end();
    if (!drop_next_) slot_ = &(*levels_.back().value)[std::move(name)];
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& error) {
    return Fail(fmt::format("no JSON at byte {}: {}", position, error.what()));
  }

  const absl::Status& problem() const { return problem_; }
  Json TakeRoot() { return std::move(root_); }

 private:
  struct Level {
    Json* value;
    size_t path_size;  // of the container's own path
    bool items = false;
  };

  bool Fail(const std::string& message) {
    problem_ = absl::InvalidArgumentError(message);
    return false;
  }

  // Where the next value goes; null when it is dropped.
  Json* Place() {
    if (levels_.empty()) return &root_;
    if (std::exchange(drop_next_, false)) return nullptr;
    Level& level = levels_.back();
    if (!level.value->is_array()) return slot_;
    level.value->push_back(nullptr);
    return &level.value->back();
  }

  template <typename T>
  bool Value(T&& value) {
    if (skipping_ > 0) return true;
    if (levels_.empty()) return Fail("the text is no JSON object");
    if (Json* place = Place()) *place = std::forward<T>(value);
    return true;
  }

  bool Open(Json::value_t type) {
    if (++depth_ > kMaxDepth) return Fail(fmt::format("nested deeper than {} levels", kMaxDepth));
    if (skipping_ > 0) {
      ++skipping_;
      return true;
    }
    if (levels_.empty() && type != Json::value_t::object) return Fail("the text is no JSON object");
    Json* place = Place();
    if (place == nullptr) {
      skipping_ = 1;
      return true;
    }
    *place = Json(type);
    const bool items = on_item_ != nullptr && levels_.size() == 1 && type == Json::value_t::array && path_ == "items";
    levels_.push_back({place, path_.size(), items});
    return true;
  }

  bool Close() {
    --depth_;
    if (skipping_ > 0) {
      --skipping_;
      return true;
    }
    levels_.pop_back();
    if (levels_.empty()) return true;
    Level& parent = levels_.back();
    path_.resize(parent.path_size);
    if (!parent.items) return true;
    Json item = std::move(parent.value->back());
    parent.value->clear();
    problem_ = (*on_item_)(std::move(item));
    return problem_.ok();
  }

  const std::vector<std::string>& drop_paths_;
  const std::function<absl::Status(Json&&)>* const on_item_;
  Json root_;
  std::vector<Level> levels_;
  std::string path_;
  Json* slot_ = nullptr;    // of the last key
  bool drop_next_ = false;  // the last key is dropped
  size_t skipping_ = 0;     // open containers inside what is dropped
  size_t depth_ = 0;
  absl::Status problem_;
};

absl::StatusOr<Json> Parse(std::string_view text, const std::vector<std::string>& drop_paths,
                           const std::function<absl::Status(Json&&)>* on_item) {
  Builder builder(drop_paths, on_item);
  if (Json::sax_parse(text.begin(), text.end(), &builder)) return builder.TakeRoot();
  return builder.problem().ok() ? absl::InvalidArgumentError("no JSON") : builder.problem();
}

}  // namespace

std::vector<std::string> DropPaths(const std::vector<std::string>& fields, std::string_view prefix) {
  std::vector<std::string> paths{fmt::format("{}metadata.managedFields", prefix)};
  for (const std::string& field : fields) paths.push_back(fmt::format("{}{}", prefix, field));
  return paths;
}

absl::StatusOr<Json> ParseObject(std::string_view text, const std::vector<std::string>& drop_paths) {
  return Parse(text, drop_paths, nullptr);
}

absl::StatusOr<Json> ParseList(std::string_view text, const std::vector<std::string>& drop_paths,
                               const std::function<absl::Status(Json&&)>& on_item) {
  return Parse(text, drop_paths, &on_item);
}

}  // namespace trainyard::control
