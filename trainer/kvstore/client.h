// A worker's side of the parameter servers.
//
// One step is: PushGradient for every trainable key, in the order in which backward finishes them, then one Wait. Next values of keys that
// are not trainable (moving statistics) go the same way, before the last gradient: servers take them as they are, in sync the mean of all
// workers' (so each must push them), in async the last one's (so the chief alone pushes them). A worker starts with
// Start (which fills its parameters) and ends with Leave, AwaitOthers (the chief) and Done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/kvstore/mode.h"
#include "trainer/kvstore/ranks.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

class SpanLog;
class Transport;

// Everything that servers keep: values, optimizer slots (one set per slot name, in the optimizer's order) and the number of global steps.
struct KvState {
  ParameterSet parameters;
  std::vector<ParameterSet> slots;
  int64_t step = 0;
};

struct KvClientOptions {
  std::vector<std::string> servers;  // host:port, by server index
  int worker = 0;                    // index; kObserver reads only (an evaluator)
  int workers = 1;
  bool chief = false;  // initialises and refills servers; exactly one worker
  KvMode mode = KvMode::kAsync;
  std::vector<ParameterSpec> specs;                     // the model; index = key
  std::vector<std::string> slot_names;                  // Optimizer::slot_names()
  std::string vocabulary;                               // which one the model's tokens are of, the same for all workers; "": it takes none
  absl::Duration connect_deadline = absl::Seconds(60);  // Start: until every server has answered and is initialised
  absl::Duration wait_deadline = absl::Seconds(60);     // Wait, Pull: longest time without an answer that is due, restarts included; what a
                                                        // server holds back because other workers are still at work is not due
  absl::Duration heartbeat_period = absl::Seconds(2);
  Clock* clock = &RealClock();  // of wait_deadline in Wait; must outlive the client
  // Chief only: the newest good checkpoint's state, or the start values where there is none. Called from Start (when servers are empty) and
  // from Wait, AwaitOthers and Pull (when a server was restarted and is empty), on the caller's thread.
  std::function<absl::StatusOr<KvState>()> load;
  SpanLog* profile = nullptr;  // what is pushed and pulled in the steps that it wants; outlives the client
};

// Where a worker begins.
struct KvStart {
  int64_t global_step = 0;  // sync: the next round; async: steps applied so far by all workers
  int64_t worker_step = 0;  // the `step` of this worker's next push. sync: = global_step; async: its own count, also after a restart
  bool joined = false;      // the servers were running: parameters are theirs, not those of load()
  bool ended = false;       // the chief has ended the training: push nothing
};

struct KvStepResult {
  int64_t global_step = 0;  // after this step
  int64_t staleness = 0;    // async: steps that others applied between this worker's parameters and its push; sync: 0
  int refilled = 0;         // servers that lost their state since the last Wait and were refilled from a checkpoint
  int64_t lost_steps = 0;   // chief, where refilled: global steps whose updates are gone from those servers
  // The chief has ended the training: push no more. Sync: the step that was pushed has left no trace, anywhere. Async: it was applied.
  bool ended = false;
};

// Used from one thread (the step loop's); PushGradient may come from another, never at the same time as Wait.
// Owns one thread; I/O happens on the transport's. A lost lane is dialled again until a deadline passes, and unanswered pushes are sent
// again: servers apply each (worker, step) once. Errors name worker, server, operation, tensor and step. After an error other than from
// Start with a deadline, the client is only good for Done or destruction.
class KvClient {
 public:
  // Starts dialling. The transport must outlive the client. InvalidArgument: options that cannot be.
  static absl::StatusOr<std::unique_ptr<KvClient>> Create(KvClientOptions options, Transport& transport);
  virtual ~KvClient() = default;

  // Waits for every server; the chief fills the empty ones from load(), the others wait for that. Servers that already run are never
  // overwritten. Then `parameters` (of the options' specs) holds the servers' values.
  // FailedPrecondition: a server has another model, mode, placement or worker count, or another worker another vocabulary (named).
  // DeadlineExceeded: what was waited for.
  virtual absl::StatusOr<KvStart> Start(ParameterSet& parameters) = 0;

  // Sends the gradient of `key` for `step` without waiting; of each part only the rows that it touches, where those are known and fewer
  // bytes. `gradient` and its list of rows must stay unchanged until Wait has returned OK or the client is destroyed. Errors show in Wait.
  virtual void PushGradient(int key, const GradientView& gradient, int64_t step) = 0;

  // Waits until every push of the step is answered and writes the fresh values of those keys into `parameters`.
  virtual absl::StatusOr<KvStepResult> Wait(ParameterSet& parameters) = 0;

  // The servers' state as it is now: for checkpoints and evaluation. In sync mode, between Wait and the next push, it is exactly the state
  // after that step; in async each part is consistent in itself. Without slots, KvState::slots is empty.
  virtual absl::StatusOr<KvState> Pull(bool with_slots) = 0;

  // Chief only, between Wait and the next push: ends the training for all workers. Sync: nobody's `step` (the next one) or a later one is
  // applied, so that all workers end at exactly this step. Async: the others hear of it soon. Returns when every server knows.
  virtual absl::Status End(int64_t step) = 0;

  // Says that this worker is at work though it does not push (it evaluates, it writes): others go on waiting for it. Any thread; cheap.
  virtual void ShowActivity() = 0;

  // This worker pushes no more; rounds of the others do not wait for it.
  virtual void Leave() = 0;
  // After Leave: waits until no other worker is training (left, done, or lost for longer than the servers' liveness deadline), refilling
  // servers where needed. Cancelled when `deadline` passes first.
  virtual absl::Status AwaitOthers(absl::Duration deadline) = 0;
  // Leave, then goodbye: the servers end when every worker has said it. Returns when that is sent or after a short deadline.
  virtual void Done() = 0;

  // Any thread: the servers' global step as last heard, and bytes so far.
  virtual int64_t global_step() const = 0;
  virtual int64_t bytes_sent() const = 0;
  virtual int64_t bytes_received() const = 0;
};

}  // namespace trainyard::engine
