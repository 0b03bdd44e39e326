// A parameter server: holds its share of the parameters and runs the optimizer on what workers push.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/base/timeouts.h"
#include "trainer/kvstore/mode.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

class KvServerCore;
class Listener;
class SpanLog;
class Transport;

struct KvServerOptions {
  std::string address = "0.0.0.0:0";  // to listen at; port 0: any
  int server = 0;                     // index
  int servers = 1;
  int workers = 1;
  KvMode mode = KvMode::kAsync;
  OptimizerConfig optimizer;  // with its schedule, which follows the number of updates; clip_norm is the workers' business
  std::vector<ParameterSpec> specs;
  // peer: how long a round waits for a worker that shows no other activity, before every worker gets an error that names the missing ones;
  // silence: a worker without a sign of life counts as lost, and so does one whose stream ends.
  TimeoutsConfig timeouts;
  // The bytes that the streams together may hold here, down to 1 MiB each: pushes that are summed, or that wait for other workers.
  size_t held_bytes = 32 << 20;
  SpanLog* profile = nullptr;   // what is received and summed in the steps that it wants; outlives the server
  Clock* clock = &RealClock();  // of the rounds' deadlines; must outlive the server
};

struct KvWorkerStats {
  int64_t pushes = 0;     // whole steps
  int64_t joins = 0;      // 1 + restarts and reconnections
  uint64_t activity = 0;  // KvClient::ShowActivity, as last heard
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

// Thread-safe. One step of one worker is applied at most once, whatever is repeated. Every header and length is checked before it is used;
// a peer that sends what does not fit is told why and its stream ended, the others go on.
class KvServer final {
 public:
  // Listens. Unavailable: the address cannot be listened at (port in use). InvalidArgument: options that cannot be. The transport must
  // outlive the server.
  static absl::StatusOr<std::unique_ptr<KvServer>> Create(KvServerOptions options, Transport& transport);
  ~KvServer();
  KvServer(const KvServer&) = delete;
  KvServer& operator=(const KvServer&) = delete;

  // host:port with the real port.
  std::string address() const;
  // Serves until every worker said Done (OK) or Stop() (Cancelled), however long no worker is there: those who started it end it. Call it
  // once.
  absl::Status Run();
  // Makes Run return. Safe from any thread, not from a signal handler.
  void Stop();
  KvServerStats stats() const;

 private:
  KvServer(std::shared_ptr<KvServerCore> core, std::unique_ptr<Listener> listener);

  const std::shared_ptr<KvServerCore> core_;
  const std::unique_ptr<Listener> listener_;
};

}  // namespace trainyard::engine
