// A worker's side of the parameter servers.
//
// One step is: PushGradient for every trainable key, in the order in which backward finishes them,
// then one Wait. Next values of keys that are not trainable (moving statistics) go the same way,
// before the last gradient. Servers take them as they are. In sync they take the mean of all
// workers, so each must push every key. In async they take the last one's, so the chief alone
// pushes them. A worker without examples in a step says PushNothing for every key that it pushes:
// the step counts as the others do.
//
// Sync: rounds wait for every worker, and all servers hold one state. The training is rolled back
// where they do not: a server lost its state, or a worker was lost in the middle of its pushes. The
// chief then fills all servers anew from one checkpoint or from the start values. Every call but
// Done may return RolledBack then. The worker calls Start again and goes on at the step that it
// tells.
//
// A worker starts with Start, which fills its parameters. At the end of async it calls Leave,
// AwaitOthers (the chief), Done. In sync the chief makes the result safe, then calls Release,
// AwaitOthers, Done. The others call AwaitRelease, then Done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/worker_pace.h"
#include "trainer/kvstore/client_options.h"
#include "trainer/kvstore/ranks.h"
#include "trainer/optim/training_state.h"
#include "trainer/optim/updater.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

class KvClientCore;
class Transport;
enum class KvGoal : uint8_t;  // client_core.h

// Used from one thread (the step loop's); PushGradient may come from another, never at the same
// time as Wait. Owns one thread; I/O happens on the transport's. A lost stream is dialled again
// until a deadline passes, and unanswered pushes are sent again: servers apply each (worker, step)
// once. Errors name worker, server, operation, tensor and step. After an error other than from
// Start with a deadline, the client is only good for Done or destruction.
class KvClient final {
 public:
  // Starts dialling. The transport must outlive the client. InvalidArgument: options that cannot
  // be.
  static absl::StatusOr<std::unique_ptr<KvClient>> Create(KvClientOptions options, Transport& transport);
  ~KvClient();
  KvClient(const KvClient&) = delete;
  KvClient& operator=(const KvClient&) = delete;

  // Waits for every server; the chief fills the empty ones from load(), the others wait for that.
  // Async: servers that already run are never overwritten. Sync: all are filled anew where they do
  // not hold one state. Then `parameters` (of the options' specs, to be kept until the client is
  // destroyed) holds the servers' values. Again after RolledBack: forgets what was pushed.
  // FailedPrecondition: a server has another model, mode, placement or worker count, or another
  // worker another vocabulary (named). DeadlineExceeded: what was waited for.
  absl::StatusOr<TrainingStart> Start(ParameterSet& parameters);

  // Sends the gradient of `key` for `step` without waiting. Of each part only the touched rows are
  // sent, where those are known and fewer bytes. `gradient` and its list of rows must stay
  // unchanged until Wait has returned OK or the client is destroyed. Errors show in Wait.
  void PushGradient(int key, const GradientView& gradient, int64_t step);
  // This worker had no examples in `step`. Async: the step changes nothing. Sync: gradients of the
  // others are summed and divided by the number of workers, as always; the mean of next values is
  // that of the workers with examples.
  void PushNothing(int key, int64_t step);

  // Waits until every push of the step is answered and writes the fresh values of those keys into
  // `parameters`.
  absl::StatusOr<StepResult> Wait(ParameterSet& parameters);

  // The servers' state as it is now: for checkpoints and evaluation. In sync mode, between Wait and
  // the next push, it is exactly the state after that step; in async each part is consistent in
  // itself. Without slots, TrainingState::slots is empty.
  absl::StatusOr<TrainingState> Pull(bool with_slots);
  // The parameters alone, straight into the caller's memory; after an error some of them.
  absl::Status PullInto(ParameterSet& parameters);

  // Chief only, between Wait and the next push: ends the training for all workers. Sync: nobody's
  // `step` (the next one) or a later one is applied, so that all workers end at exactly this step.
  // Async: the others hear of it soon. Returns when every server knows.
  absl::Status End(int64_t step);

  // Says that this worker is at work though it does not push (it evaluates, it writes): others go
  // on waiting for it. Any thread; cheap.
  void ShowActivity();

  // Sync: how long this worker takes for a step by itself; the chief hears it with the next
  // heartbeat. Cheap.
  void TellPace(WorkerPace pace);
  // Chief: the last pace of each worker, itself too.
  std::vector<WorkerPace> paces() const;

  // Sync: this worker cannot go on from the line that it trains on; the chief rolls all back.
  // Returns RolledBack.
  absl::Status AskForRollback(const std::string& reason);
  // Sync, chief, after its last step: the result is safe, the others may end. Returns when every
  // server knows.
  absl::Status Release();
  // Sync, other workers, after their last step: waits for the chief's Release as long as the chief
  // is at work, else at most timeouts.peer.
  absl::Status AwaitRelease();

  // Async: this worker pushes no more; the others need not wait for it.
  void Leave();
  // After Leave (sync: after Release): waits until no other worker is training (left, done, or lost
  // for longer than timeouts.silence), refilling servers where needed. Sync: until one server that
  // holds values counts none. Cancelled when `deadline` passes first.
  absl::Status AwaitOthers(absl::Duration deadline);
  // Leave, then goodbye: the servers end when every worker has said it. Returns when that is sent
  // or after a short deadline.
  void Done();

  // Any thread: the servers' global step as last heard, and bytes so far.
  int64_t global_step() const;
  // Any thread. Async: the global step at which all workers have ended, as last heard: it changes
  // with the workers; -1: no server is ready.
  int64_t planned_steps() const;
  int64_t bytes_sent() const;
  int64_t bytes_received() const;

 private:
  struct Deadline {
    absl::Time time;
    absl::Duration allowed;  // for messages
  };

  KvClient(KvClientOptions options, Transport& transport);
  bool IsSync() const { return options_.mode == KvMode::kSync && options_.worker != kObserver; }
  bool IsStopping() const { return options_.stopping && options_.stopping(); }
  Deadline After(absl::Duration allowed) const { return {options_.clock->Now() + allowed, allowed}; }

  // Good while this worker may go on: nothing is broken, and in sync mode the servers are on its
  // line.
  absl::Status CheckLine() const;
  absl::StatusOr<TrainingStart> StartAsItIs(ParameterSet& parameters);
  // Sync: waits until all servers hold one state that this worker can go on from. The chief sees to
  // it that they do.
  absl::StatusOr<TrainingStart> StartOnLine(ParameterSet& parameters);
  // Until no server reads this worker's gradients where they lie.
  absl::Status AwaitLoans(std::string_view call);
  // Writes the values that have arrived where they belong. False: none had.
  bool StoreArrived(absl::Duration at_most, ParameterSet& parameters);
  absl::StatusOr<std::shared_ptr<TrainingState>> LoadState(bool again);
  // All servers have values.
  bool IsReady() const;
  // Waits for the goal; the chief fills what is empty meanwhile, once all are up.
  absl::Status Reach(KvGoal goal, const Deadline& deadline, std::string_view what);
  absl::Status PullState(TrainingState& state, bool with_slots);
  // The chief's duty in async mode: a server that lost its values gets the newest that the chief
  // has. Returns how many steps the optimizer slots, which only servers have, are behind them.
  absl::StatusOr<int64_t> FillEmptyServers();
  // Every worker's in async mode: a server that was lost together with the chief, and filled with
  // older values, gets this worker's. Returns such servers.
  std::vector<int> SendNewest();

  const std::shared_ptr<KvClientCore> core_;
  const KvClientOptions& options_;
  bool pushed_ = false;                          // since the last Wait
  const ParameterSet* newest_ = nullptr;         // the caller's, as the last Start or Wait filled them
  absl::Time stop_at_ = absl::InfiniteFuture();  // when a Wait that cannot be finished ends
  int64_t seen_step_ = 0;                        // global step of the parameters in hand
  std::thread tender_;
};

}  // namespace trainyard::engine
