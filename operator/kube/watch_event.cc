#include "operator/kube/watch_event.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "operator/kube/errors.h"
#include "operator/kube/object_parser.h"

namespace trainyard::control {

std::string_view WatchEventTypeName(WatchEventType type) {
  switch (type) {
    case WatchEventType::kAdded:
      return "ADDED";
    case WatchEventType::kModified:
      return "MODIFIED";
    case WatchEventType::kDeleted:
      return "DELETED";
    case WatchEventType::kBookmark:
      return "BOOKMARK";
  }
  return "";
}

WatchDecoder::WatchDecoder(std::string what, const ReadFields& fields, size_t max_line_bytes, WatchEventHandler on_event)
    : what_(std::move(what)),
      filter_(fields, FieldFilter::Where::kEvent),
      max_line_bytes_(max_line_bytes),
      on_event_(std::move(on_event)) {}

absl::Status WatchDecoder::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (partial_.size() + piece.size() > max_line_bytes_) {
      return absl::DataLossError(fmt::format("{}: an event of more than {} bytes", what_, max_line_bytes_));
    }
    if (end == std::string_view::npos) {
      partial_ += piece;
      return absl::OkStatus();
    }
    bytes.remove_prefix(end + 1);
    absl::Status status;
    if (partial_.empty()) {
      status = Line(piece);
    } else {
      partial_ += piece;
      status = Line(partial_);
      partial_.clear();
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status WatchDecoder::Finish() const {
  if (partial_.empty()) return absl::OkStatus();
  return absl::DataLossError(fmt::format("{}: the stream ended within an event, after {} bytes of it", what_, partial_.size()));
}

absl::Status WatchDecoder::Line(std::string_view line) {
  if (line.empty()) return absl::OkStatus();
  // API servers write the type first. Where one does not, more is read than needed.
  auto event = ParseObject(line, line.starts_with(R"({"type":"DELETED")") ? gone_ : filter_);
  if (!event.ok()) {
    return absl::DataLossError(
        fmt::format("{}: a line that is no event: {}: \"{}\"", what_, std::string(event.status().message()), line.substr(0, 100)));
  }
  const auto type = event->find("type");
  const auto object = event->find("object");
  if (type == event->end() || !type->is_string() || object == event->end() || !object->is_object()) {
    return absl::DataLossError(fmt::format("{}: an event without type and object: \"{}\"", what_, line.substr(0, 100)));
  }
  const std::string& name = type->get_ref<const std::string&>();
  if (name == "ERROR") return StatusFromObject(what_, object->dump());
  for (const WatchEventType known :
       {WatchEventType::kAdded, WatchEventType::kModified, WatchEventType::kDeleted, WatchEventType::kBookmark}) {
    if (name == WatchEventTypeName(known)) return on_event_(known, std::move(*object));
  }
  return absl::DataLossError(fmt::format("{}: an event of unknown type \"{}\"", what_, name.substr(0, 100)));
}

}  // namespace trainyard::control
