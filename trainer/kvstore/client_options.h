// The options of a worker's side of the parameter servers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/base/job_settings.h"
#include "trainer/base/long_wait.h"
#include "trainer/base/timeouts.h"
#include "trainer/kvstore/mode.h"
#include "trainer/kvstore/placement.h"
#include "trainer/kvstore/ranks.h"
#include "trainer/optim/training_state.h"
#include "trainer/tensor/compression.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

class SpanLog;

struct KvClientOptions {
  std::vector<std::string> servers;  // host:port, by server index
  int worker = 0;                    // index; kObserver reads only (an evaluator)
  int workers = 1;
  int devices = 1;     // of each worker; sync: a push is the sum over those that had examples
  bool chief = false;  // initialises and refills servers; exactly one worker
  KvMode mode = KvMode::kAsync;
  Compression compression = Compression::kNone;  // of pushes and answers
  std::vector<ParameterSpec> specs;              // the model; index = key
  PlacementOptions placement;                    // the same for all servers and workers
  std::vector<std::string> slot_names;           // Optimizer::slot_names()
  JobSettings settings = {};                     // that all workers must have alike (train/settings_of_job.h)
  int64_t end_step = 0;                          // async: the step before which this worker ends
  std::string vocabulary;                        // which one the model's tokens are of, the same for all workers; "": it takes none
  // connect: Start, until every server has answered and is initialised. peer: Wait, Pull and End,
  // the longest time without an answer that is due, restarts of servers included. An answer that a
  // server holds back because others have not pushed is not due.
  TimeoutsConfig timeouts;
  absl::Duration heartbeat_period = absl::Seconds(2);
  Clock* clock = &RealClock();  // of the timeouts; must outlive the client
  // Chief only: the newest good checkpoint's state, or the start values where there is none.
  // `again`: the training was under way already, so that in sync mode all workers must be able to
  // go on from that state with the same bits. Called from Start (when servers are empty) and in
  // async from Wait, AwaitOthers and Pull (when a server was restarted and is empty), on the
  // caller's thread.
  std::function<absl::StatusOr<TrainingState>(bool again)> load;
  // True: this replica was asked to stop. Start, Wait and AwaitRelease then end soon with
  // Cancelled, where they wait for others.
  std::function<bool()> stopping;
  WaitTold on_wait;            // on the caller's thread: Start, Wait and others last
  SpanLog* profile = nullptr;  // of pushes and pulls in the steps that it wants; outlives the client
};

}  // namespace trainyard::engine
