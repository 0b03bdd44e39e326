#include "operator/base/timestamp.h"

namespace trainyard::control {

std::string FormatTimestamp(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone()); }

std::string FormatMicroTimestamp(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone()); }

absl::Time ParseTimestamp(std::string_view text) {
  absl::Time time;
  if (!absl::ParseTime(absl::RFC3339_full, absl::string_view(text.data(), text.size()), &time, nullptr)) return absl::InfinitePast();
  return time;
}

}  // namespace trainyard::control
