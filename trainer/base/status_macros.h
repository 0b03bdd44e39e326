// Early return on a bad absl::Status. Each use names what failed by the status it passes on; add
// context with WithContext.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace trainyard::engine {

// The same code with "<context>: " before the message; an OK status stays OK.
inline absl::Status WithContext(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(std::string(context), ": ", status.message())};
}

}  // namespace trainyard::engine

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
