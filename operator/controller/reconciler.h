// Reconciler: makes the world match one object.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace trainyard::control {

struct ReconcileResult {
  // Look again after so long, whatever happens in between (a deadline, a TTL); zero: at once; none:
  // when something changes.
  std::optional<absl::Duration> requeue_after;
};

// Thread-safe: called for different keys at once, never twice at once for one key. Level-based:
// reads what is, not what happened.
class Reconciler {
 public:
  virtual ~Reconciler() = default;
  // An error is tried again with the key's backoff; the controller logs it.
  virtual absl::StatusOr<ReconcileResult> Reconcile(const std::string& key) = 0;
};

}  // namespace trainyard::control
