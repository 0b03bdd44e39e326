// How long a job waits for what does not come: spec.training.timeouts. Every other deadline between
// replicas follows from these.
#pragma once

#include "absl/time/time.h"

namespace trainyard::engine {

// The defaults fit slow clusters, where a pod may take many minutes to be scheduled and to pull its
// image.
struct TimeoutsConfig {
  absl::Duration peer = absl::Minutes(30);     // the longest absence of a server, or of a worker that a round needs
  absl::Duration connect = absl::Minutes(30);  // from a worker's start until all servers are there and have their parameters
  absl::Duration input = absl::Minutes(10);    // without a batch
  absl::Duration silence = absl::Seconds(30);  // a stream without a byte either way is dead and is dialled again
  absl::Duration hello = absl::Seconds(10);    // from a stream's opening to its first record
  absl::Duration stop = absl::Seconds(8);      // from SIGTERM to the replica's exit

  friend bool operator==(const TimeoutsConfig&, const TimeoutsConfig&) = default;
};

}  // namespace trainyard::engine
