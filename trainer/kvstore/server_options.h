// The options of a parameter server, and its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/base/lendable_memory.h"
#include "trainer/base/timeouts.h"
#include "trainer/kvstore/mode.h"
#include "trainer/kvstore/placement.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/tensor/compression.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

class SpanLog;

struct KvServerOptions {
  std::string address = "0.0.0.0:0";  // to listen at; port 0: any
  int server = 0;                     // index
  int servers = 1;
  int workers = 1;
  int devices = 1;  // of each worker: sync means are over workers * devices
  KvMode mode = KvMode::kAsync;
  Compression compression = Compression::kNone;  // of pushes and answers
  OptimizerConfig optimizer;  // with its schedule, which follows the number of updates; clip_norm is the workers' business
  std::vector<ParameterSpec> specs;
  PlacementOptions placement;                          // the same for all servers and workers
  std::shared_ptr<LendableMemory> lendable = nullptr;  // the transport's, for the values; may be null
  // peer: how long a round waits for a worker that shows no other activity. Then every worker gets
  // an error that names the missing ones. silence: a worker without a sign of life for so long
  // counts as lost, and so does one whose stream ends.
  TimeoutsConfig timeouts;
  // The bytes that the streams together may hold here, down to 1 MiB each: pushes that are summed,
  // or that wait for other workers.
  size_t held_bytes = 32 << 20;
  SpanLog* profile = nullptr;   // of pushes and sums in the steps that it wants; outlives the server
  Clock* clock = &RealClock();  // of the rounds' deadlines; must outlive the server
};

struct KvWorkerStats {
  int64_t pushes = 0;     // whole steps
  int64_t joins = 0;      // 1 + restarts and reconnections
  uint64_t activity = 0;  // KvClient::ShowActivity, as last heard
  bool connected = false;
  bool done = false;
};

// A round of sync mode that is open: some workers have pushed its step and wait for the others.
struct KvOpenRound {
  int64_t step = 0;
  absl::Duration age;        // since its first push
  std::vector<int> waiting;  // workers that have pushed
  std::vector<int> missing;  // workers that have not
};

struct KvServerStats {
  int64_t global_step = 0;     // sync: rounds; async: worker steps applied
  int64_t bytes_received = 0;  // on the wire
  int64_t bytes_sent = 0;
  int64_t parameter_bytes = 0;  // of this server's share, without slots
  int keys = 0;                 // tensors of which this server holds a part
  int64_t duplicates = 0;       // pushes of parts that had been applied before
  int64_t refused_streams = 0;  // turned away: no key, no 'hello' in time, or records that do not fit
  double staleness_mean = 0;    // async, in steps
  int64_t staleness_max = 0;
  std::vector<KvWorkerStats> workers;
  std::optional<KvOpenRound> open_round;  // the oldest one; sync
};

}  // namespace trainyard::engine
