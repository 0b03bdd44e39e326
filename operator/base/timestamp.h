// Times as Kubernetes writes them.
#pragma once

#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace trainyard::control {

// RFC 3339 in UTC as Kubernetes writes it: metav1.Time (seconds) and metav1.MicroTime.
std::string FormatTimestamp(absl::Time time);
std::string FormatMicroTimestamp(absl::Time time);
// absl::InfinitePast() when the text is empty or no RFC 3339 time.
absl::Time ParseTimestamp(std::string_view text);

}  // namespace trainyard::control
