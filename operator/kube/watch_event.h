// A watch's bytes → events: one JSON object a line.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "operator/kube/field_filter.h"
#include "operator/kube/unreadable.h"

namespace trainyard::control {

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark };

std::string_view WatchEventTypeName(WatchEventType type);

using WatchEventHandler = std::function<absl::Status(WatchEventType, nlohmann::json&&)>;

// Takes the pieces in which a watch's body arrives, cut anywhere. Not thread-safe.
class WatchDecoder {
 public:
  // A line that is longer than `max_line_bytes` or no event goes to `on_unreadable`, if it says
  // whose it is, and the next follows. Only the identity of an object that is gone is read.
  WatchDecoder(std::string what, const ReadFields& fields, size_t max_line_bytes, WatchEventHandler on_event,
               UnreadableHandler on_unreadable);

  // The first problem: the handler's own error, an ERROR event's status, DataLoss for an unreadable
  // line: something may have been missed. The decoder takes no more after it.
  absl::Status Feed(std::string_view bytes);
  // Unavailable when the stream ended within a line.
  absl::Status Finish() const;

 private:
  absl::Status Line(std::string_view line);
  absl::Status NoEvent(std::string_view line, std::string_view problem);

  const std::string what_;
  const FieldFilter filter_;
  const FieldFilter gone_ = FieldFilter::OfEventsThatTellOfAnEnd();
  const size_t max_line_bytes_;
  const WatchEventHandler on_event_;
  const UnreadableHandler on_unreadable_;
  std::string partial_;
  bool too_long_ = false;  // the line under way: `partial_` is its beginning
};

}  // namespace trainyard::control
