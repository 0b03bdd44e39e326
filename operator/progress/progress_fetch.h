// How a job's own servers are asked, a chief for /progress and what serves its checkpoints for the
// version: at their address, or through the API server.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/kube/transport.h"

namespace trainyard::control {

// Where a job's chief or server answers. Another object of the same name has another uid.
struct ProgressTarget {
  std::string ns;
  std::string kind = "pods";  // or "services", as paths of the API server have them
  std::string name;
  std::string uid;
  std::string ip;
  int port = 0;  // of HTTP
  std::string path = "progress";
  friend bool operator==(const ProgressTarget&, const ProgressTarget&) = default;
};

// GETs the path of a target, whatever is there: it costs at most kProgressTimeout, 16 KiB of
// headers and kMaxProgressBytes of body. No redirects are followed, nothing is tried again, and the
// answer's headers are not followed. Thread-safe.
using ProgressFetch = std::function<absl::StatusOr<std::string>(const ProgressTarget& target, std::stop_token stop)>;

inline constexpr absl::Duration kProgressTimeout = absl::Seconds(2);

// From the target's address.
ProgressFetch FetchFromPod(Clock& clock);
// Through the API server's proxy, beside the client and its throttle: a pod must not be able to
// hold the client up. `transport` must outlive the result.
ProgressFetch FetchThroughApiServer(Transport& transport);

}  // namespace trainyard::control
