// A parameter server: holds its share of the parameters and runs the optimizer on what workers push.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/kvstore/mode.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

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
  absl::Duration wait_deadline = absl::Seconds(60);      // sync: a round may wait for at most 4/5 of it for a worker that shows no other
                                                         // activity, else every worker gets an error that names the missing ones (so that
                                                         // it comes before their own deadline)
  absl::Duration liveness_deadline = absl::Seconds(30);  // without a sign of life a worker counts as lost; so does it when its lane ends
  absl::Duration hello_deadline = absl::Seconds(10);     // from a lane's opening to its 'hello'
  absl::Duration rejoin_deadline = absl::Seconds(120);   // how long the end of the run waits for lost workers (or the first ones) to come
  SpanLog* profile = nullptr;                            // what is received and summed in the steps that it wants; outlives the server
  Clock* clock = &RealClock();                           // of the rounds' deadlines; must outlive the server
};

struct KvWorkerStats {
  int64_t pushes = 0;     // whole steps
  int64_t joins = 0;      // 1 + restarts and reconnections
  uint64_t activity = 0;  // KvClient::ShowActivity, as last heard
  bool done = false;
};

struct KvServerStats {
  int64_t global_step = 0;     // sync: rounds; async: worker steps applied
  int64_t bytes_received = 0;  // on the wire
  int64_t bytes_sent = 0;
  int64_t parameter_bytes = 0;  // of this server's share, without slots
  int keys = 0;                 // tensors of which this server holds a part
  int64_t duplicates = 0;       // pushes of parts that had been applied before
  double staleness_mean = 0;    // async, in steps
  int64_t staleness_max = 0;
  std::vector<KvWorkerStats> workers;
};

// Thread-safe. One step of one worker is applied at most once, whatever is repeated. Every header and length is checked before it is used;
// a peer that sends what does not fit is told why and its lane ended, the others go on.
class KvServer {
 public:
  // Listens. Unavailable: the address cannot be listened at (port in use). InvalidArgument: options that cannot be. The transport must
  // outlive the server.
  static absl::StatusOr<std::unique_ptr<KvServer>> Create(KvServerOptions options, Transport& transport);
  virtual ~KvServer() = default;

  // host:port with the real port.
  virtual std::string address() const = 0;
  // Serves until every worker said Done (OK), Stop() (Cancelled), or no worker is left and none came back within rejoin_deadline
  // (Unavailable, naming them). Call it once.
  virtual absl::Status Run() = 0;
  // Makes Run return. Safe from any thread, not from a signal handler.
  virtual void Stop() = 0;
  virtual KvServerStats stats() const = 0;
};

}  // namespace trainyard::engine
