// Early return on a bad absl::Status, and context for a status that is passed on.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::control {

// The same code and payloads (so that Reason() and RetryAfter() still answer) with "<context>: "
// before the message. An OK status stays OK.
absl::Status WithContext(const absl::Status& status, std::string_view context);

}  // namespace trainyard::control

#define TY_RETURN_IF_ERROR(expr)                                            \
  do {                                                                      \
    if (absl::Status ty_status = (expr); !ty_status.ok()) return ty_status; \
  } while (false)

#define TY_CONCAT_INNER(a, b) a##b
#define TY_CONCAT(a, b) TY_CONCAT_INNER(a, b)
#define TY_ASSIGN_OR_RETURN(lhs, expr) TY_ASSIGN_OR_RETURN_INNER(TY_CONCAT(ty_value_, __LINE__), lhs, expr)
#define TY_ASSIGN_OR_RETURN_INNER(value, lhs, expr) \
  auto value = (expr);                              \
  if (!value.ok()) return value.status();           \
  lhs = *std::move(value)
