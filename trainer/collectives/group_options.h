// The options of a group of ranks, and the results of its calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/base/cpu_quota.h"
#include "trainer/base/input_origin.h"
#include "trainer/base/last_cache.h"
#include "trainer/base/long_wait.h"
#include "trainer/base/timeouts.h"
#include "trainer/collectives/exchange.h"
#include "trainer/collectives/join_request.h"
#include "trainer/collectives/schedule.h"
#include "trainer/transport/wire.h"

namespace trainyard::engine {

class SpanLog;

inline constexpr size_t kBucketBytes = kMaxPayloadBytes;  // of a bucket, at most: a rank may send all of it as one record

// A part of a bucket that rank 0 has asked for.
struct OfferedPart {
  size_t bucket = 0;
  PartToSend part;
};

struct RankGroupOptions {
  std::vector<std::string> hosts;  // by rank: where each is dialled
  std::string listen;              // where this rank listens
  int rank = 0;
  std::string node;                                          // that this rank runs on; "": unknown
  std::string device_kind;                                   // of what keeps this rank's parameters; "": the host does
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto;  // of the operations to come: which peers there are streams with
  GroupAgreement agreement;
  uint64_t fingerprint = 0;  // of the model, in every record
  // connect: the first Join or Gather. peer: every other wait for a rank; a rank that shows
  // activity is waited for as long as it does.
  TimeoutsConfig timeouts;
  absl::Duration heartbeat_period = absl::Seconds(2);
  int processors = CpuQuota();           // for all ranks of this machine
  size_t last_cache = LastCacheBytes();  // bytes, likewise; 0: unknown
  Clock* clock = &RealClock();           // of the timeouts; must outlive the group
  // True: this replica was asked to stop. Waits for others then end soon, with Cancelled.
  std::function<bool()> stopping;
  // Other ranks: what they have of the optimizer's slots between step - 1 and `step`, for rank 0.
  // Aborted: they are of another step. On a thread of the transport's, under the group's lock: it
  // must not wait for the group. Null: nothing is sharded.
  std::function<absl::StatusOr<std::vector<OfferedPart>>(int64_t step)> on_ask;
  WaitTold on_wait;            // on the caller's thread: a wait for other ranks lasts
  SpanLog* profile = nullptr;  // of all-reduces: buckets and waits in the steps that it wants; outlives the group
};

// The words of the other ranks to rank 0 when they joined, taken together.
struct Gathered {
  int64_t furthest = -1;         // the furthest step whose state one has in memory; -1: none has trained
  int rank = -1;                 // that has it, the lowest one; -1: none
  InputOrigin origin = {};       // of that state
  std::string because;           // why they join anew
  bool from_checkpoint = false;  // one cannot go on from values in memory
};

struct Formed {
  int64_t step = 0;
  int root = 0;  // the rank that gives all others the state of `step`
  InputOrigin origin = {};
  bool again = false;     // ranks have trained in a group before
  bool finished = false;  // there is no group: the training is over at `step`
};

struct Waited {
  bool ended = false;  // rank 0 has ended the training: the operation has left no trace anywhere
};

}  // namespace trainyard::engine
