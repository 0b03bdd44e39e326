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

WatchDecoder::WatchDecoder(std::string what, const ReadFields& fields, size_t max_line_bytes, WatchEventHandler on_event,
                           UnreadableHandler on_unreadable)
    : what_(std::move(what)),
      filter_(fields, FieldFilter::Where::kEvent),
      max_line_bytes_(max_line_bytes),
      on_event_(std::move(on_event)),
      on_unreadable_(std::move(on_unreadable)) {}

absl::Status WatchDecoder::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    const bool whole = partial_.empty() && !too_long_ && end != std::string_view::npos && piece.size() <= max_line_bytes_;
    if (!whole) {
      too_long_ = too_long_ || partial_.size() + piece.size() > max_line_bytes_;
      partial_ += piece.substr(0, max_line_bytes_ - partial_.size());
    }
    if (end == std::string_view::npos) return absl::OkStatus();
    bytes.remove_prefix(end + 1);
    const absl::Status status =
        too_long_ ? NoEvent(partial_, fmt::format("an event of more than {} bytes", max_line_bytes_)) : Line(whole ? piece : partial_);
    partial_.clear();
    if (too_long_) partial_.shrink_to_fit();
    too_long_ = false;
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status WatchDecoder::Finish() const {
  if (partial_.empty()) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}: the stream ended within an event, after {} bytes of it", what_, partial_.size()));
}

absl::Status WatchDecoder::NoEvent(std::string_view line, std::string_view problem) {
  const Unreadable object = IdentifyEvent(line, std::string(problem));
  if (object.name.empty()) return absl::DataLossError(fmt::format("{}: {}: \"{}\"", what_, problem, line.substr(0, 100)));
  on_unreadable_(object);
  return absl::OkStatus();
}

absl::Status WatchDecoder::Line(std::string_view line) {
  if (line.empty()) return absl::OkStatus();
  // API servers write the type first. Where one does not, more is read than needed.
  auto event = ParseObject(line, line.starts_with(R"({"type":"DELETED")") ? gone_ : filter_);
  if (!event.ok()) return NoEvent(line, fmt::format("a line that is not an event: {}", std::string(event.status().message())));
  const auto type = event->find("type");
  const auto object = event->find("object");
  if (type == event->end() || !type->is_string() || object == event->end() || !object->is_object()) {
    return NoEvent(line, "an event without type and object");
  }
  const std::string& name = type->get_ref<const std::string&>();
  if (name == "ERROR") return StatusFromObject(what_, object->dump());
  for (const WatchEventType known :
       {WatchEventType::kAdded, WatchEventType::kModified, WatchEventType::kDeleted, WatchEventType::kBookmark}) {
    if (name == WatchEventTypeName(known)) return on_event_(known, std::move(*object));
  }
  return NoEvent(line, fmt::format("an event of unknown type \"{}\"", name.substr(0, 100)));
}

}  // namespace trainyard::control
