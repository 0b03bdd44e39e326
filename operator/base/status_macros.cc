#include "operator/base/status_macros.h"

#include <fmt/format.h>

#include "absl/strings/cord.h"

namespace trainyard::control {

absl::Status WithContext(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  const std::string_view message(status.message().data(), status.message().size());
  absl::Status wrapped(status.code(), fmt::format("{}: {}", context, message));
  status.ForEachPayload([&wrapped](absl::string_view type_url, const absl::Cord& payload) { wrapped.SetPayload(type_url, payload); });
  return wrapped;
}

}  // namespace trainyard::control
