#include "operator/kube/list_decoder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "operator/kube/object_parser.h"

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxRestBytes = 1 << 20;
constexpr std::string_view kItems = "items";
constexpr int kItemsDepth = 2;  // of "items" itself: the elements begin in it

}  // namespace

ListDecoder::ListDecoder(std::string what, const ReadFields& fields, size_t max_item_bytes, ItemHandler on_item,
                         UnreadableHandler on_unreadable)
    : what_(std::move(what)),
      filter_(fields, FieldFilter::Where::kObject),
      max_item_bytes_(max_item_bytes),
      on_item_(std::move(on_item)),
      on_unreadable_(std::move(on_unreadable)) {}

void ListDecoder::Begin() {
  problem_ = absl::OkStatus();
  rest_.clear();
  item_.clear();
  text_.clear();
  depth_ = 0;
  item_too_long_ = in_string_ = escaped_ = in_items_ = false;
}

void ListDecoder::Keep(std::string_view bytes) {
  std::string& kept = in_items_ ? item_ : rest_;
  const size_t limit = in_items_ ? max_item_bytes_ : kMaxRestBytes;
  const bool fits = kept.size() + bytes.size() <= limit;
  kept += bytes.substr(0, limit - std::min(limit, kept.size()));
  if (fits) return;
  if (in_items_) {
    item_too_long_ = true;
  } else {
    problem_ = absl::DataLossError(fmt::format("{}: more than {} bytes beside the items", what_, kMaxRestBytes));
  }
}

void ListDecoder::EndItem() {
  const bool blank = item_.find_first_not_of(" \t\r\n") == std::string::npos;
  if (item_too_long_) {
    on_unreadable_(IdentifyObject(item_, fmt::format("longer than {} bytes", max_item_bytes_)));
  } else if (!blank) {
    auto object = ParseObject(item_, filter_);
    if (object.ok()) {
      problem_ = on_item_(*std::move(object));
    } else {
      on_unreadable_(IdentifyObject(item_, std::string(object.status().message())));
    }
  }
  item_.clear();
  if (item_.capacity() > max_item_bytes_ / 4) item_.shrink_to_fit();
  item_too_long_ = false;
}

bool ListDecoder::Take(std::string_view bytes) {
  if (problem_.ok()) Scan(bytes);
  return problem_.ok();
}

void ListDecoder::Scan(std::string_view bytes) {
  size_t from = 0;  // of what is not kept yet
  const auto keep_until = [&](size_t end) {
    Keep(bytes.substr(from, end - from));
    from = end;
  };
  for (size_t i = 0; i < bytes.size() && problem_.ok(); ++i) {
    const char c = bytes[i];
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
        continue;
      }
      if (depth_ == 1 && text_.size() <= kItems.size()) text_ += c;
      continue;
    }
    switch (c) {
      case '"':
        in_string_ = true;
        if (depth_ == 1) text_.clear();
        break;
      case '{':
      case '[':
        if (depth_ == 1 && c == '[' && text_ == kItems && !in_items_) {
          keep_until(i + 1);
          in_items_ = true;
        }
        ++depth_;
        break;
      case '}':
      case ']':
        if (in_items_ && depth_ == kItemsDepth) {
          keep_until(i);
          EndItem();
          in_items_ = false;
        }
        --depth_;
        break;
      case ',':
        if (in_items_ && depth_ == kItemsDepth) {
          keep_until(i);
          EndItem();
          ++from;
        }
        break;
      default:
        break;
    }
  }
  keep_until(bytes.size());
}

absl::StatusOr<Json> ListDecoder::Finish() {
  if (!problem_.ok()) return problem_;
  auto list = ParseObject(rest_, FieldFilter(std::nullopt, FieldFilter::Where::kObject));
  if (!list.ok()) return absl::DataLossError(fmt::format("{}: the answer is {}", what_, std::string(list.status().message())));
  return list;
}

}  // namespace trainyard::control
