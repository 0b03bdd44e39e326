// The API server's answers as errors: metav1.Status objects and HTTP codes as absl::Status, with
// the server's reason kept.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace trainyard::control {

// For an answer with code >= 400 (body: a metav1.Status, or anything else). `what` names the
// request: "create pods default/mnist-ps-0".
absl::Status StatusFromAnswer(std::string_view what, int http_code, std::string_view body, std::string_view retry_after);
// For the object of a watch's ERROR event.
absl::Status StatusFromObject(std::string_view what, std::string_view status_object);

// The reason field: "AlreadyExists", "Conflict", "NotFound", "Expired" …; empty when the server did
// not speak (network, time).
std::string Reason(const absl::Status& status);
// The server's own words, without the request that they answer; empty when it did not speak.
std::string ServerWords(const absl::Status& status);
// 0 when the server did not speak.
int HttpCode(const absl::Status& status);
// How long the server asked to wait (header Retry-After or details.retryAfterSeconds), if it did.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

bool IsNotFound(const absl::Status& status);       // 404
bool IsAlreadyExists(const absl::Status& status);  // 409, reason AlreadyExists
bool IsConflict(const absl::Status& status);       // 409, reason Conflict: stale resourceVersion, or a precondition (uid) that did not hold
bool IsExpired(const absl::Status& status);        // 410, or reason Expired: list again
bool IsForbidden(const absl::Status& status);      // 403
bool IsInvalid(const absl::Status& status);        // 422: the object itself is wrong; sending it again cannot help
bool IsNamespaceTerminating(const absl::Status& status);

}  // namespace trainyard::control
