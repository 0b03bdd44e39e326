// How a gradient becomes a parameter: in this process (local) or in parameter servers (kvstore).
// The step loop knows only this.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/worker_pace.h"
#include "trainer/optim/training_state.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Steps [from, to) are done again.
struct RedoneSteps {
  int64_t from = 0;
  int64_t to = 0;
  std::string reason;
};

// Sync: this worker's parameters are not the servers' any more. Start leads to the place where the
// training goes on.
absl::Status RolledBack(std::string_view reason);
bool IsRolledBack(const absl::Status& status);

// Where a worker begins, or goes on after a rollback.
struct TrainingStart {
  int64_t global_step = 0;  // sync: the next round; async: steps applied so far by all workers
  int64_t worker_step = 0;  // the `step` of this worker's next push. sync: = global_step; async: its own count, also after a restart
  bool joined = false;      // the servers were running: parameters are theirs, not those of load()
  bool again = false;       // this worker has trained before with those servers or ranks: its process is not its first
  bool ended = false;       // the chief has ended the training: push nothing
  int64_t line_step = 0;    // sync: where the servers were filled; parameters of a later step come of rounds since
  std::optional<RedoneSteps> redone = std::nullopt;  // chief, sync
  bool finished = false;                             // all-reduce: the training was over already; parameters may not be filled
  std::optional<InputOrigin> origin = std::nullopt;  // sync, of parameters that are not those of load(): where their input goes on
};

struct StepResult {
  int64_t global_step = 0;  // after this step
  int64_t staleness = 0;    // async: steps that others applied between this worker's parameters and its push; sync: 0
  int refilled = 0;         // async: servers that lost their state since the last Wait and were refilled
  int64_t lost_steps = 0;   // chief, where refilled: global steps that the optimizer slots of those servers are behind
  // The chief has ended the training: push no more. Sync: the step that was pushed has left no
  // trace, anywhere. Async: it was applied.
  bool ended = false;
};

// One step is: Push for every trainable key, in the order in which backward finishes them, then one
// Wait. Keys that are not trainable are pushed in the same way. Their next value takes the
// gradient's place and becomes the parameter as it is. With parameter servers in sync mode Wait,
// State, End, Release and AwaitRelease may return RolledBack: Start again. Used from one thread.
// Errors name the replica, the operation, and tensor and step where there are such.
class Updater {
 public:
  virtual ~Updater() = default;
  // Fills `parameters` with the values to begin with: those of running servers, of a checkpoint, or
  // the start values.
  virtual absl::StatusOr<TrainingStart> Start(ParameterSet& parameters) = 0;
  // Hands over the gradient (or next value) of `key`, which must stay as it is until Wait returns,
  // its list of rows too.
  virtual void Push(int key, const GradientView& gradient, int64_t step) = 0;
  // There is no gradient (or next value) of `key` in this step, since this replica had no examples.
  virtual void PushNothing(int key, int64_t step) = 0;
  // Returns when every pushed parameter has its new value in `parameters`, or where Refresh finds
  // it.
  virtual absl::StatusOr<StepResult> Wait(ParameterSet& parameters) = 0;
  // `parameters` are those after the last Wait, also where a device keeps them.
  virtual absl::Status Refresh(ParameterSet& /*parameters*/) { return absl::OkStatus(); }
  // Parameters, optimizer slots and step as they are now: the content of a checkpoint. `parameters`
  // are those that Wait filled.
  virtual absl::StatusOr<TrainingState> State(const ParameterSet& parameters) = 0;
  // The same without a copy where they are in this process: `use` sees them as they stand, and
  // returns.
  virtual absl::Status Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) = 0;
  // Waits until no other replica changes the parameters any more, at most `deadline`; then
  // `parameters` are final.
  virtual absl::Status AwaitOthers(absl::Duration deadline, ParameterSet& parameters) = 0;
  // Chief, between Wait and the next Push: ends the training of all replicas. In sync mode no step
  // from `step` on is applied anywhere.
  virtual absl::Status End(int64_t step) = 0;
  // This replica is at work though it does not push: others go on waiting for it. Any thread;
  // cheap.
  virtual void ShowActivity() = 0;
  // Sync: how long this worker takes for a step by itself. The chief hears it soon. Cheap.
  virtual void TellPace(WorkerPace pace) = 0;
  // Sync, chief: the last pace of each worker, itself too. Workers that have told none yet are
  // missing.
  virtual std::vector<WorkerPace> paces() const = 0;
  // Sync: this replica cannot go on from the parameters that it was given. Returns RolledBack; OK
  // in a job without peers.
  virtual absl::Status AskForRollback(const std::string& reason) = 0;
  // Sync, chief: the result is safe, the other replicas may end. Returns when they have, or are
  // lost.
  virtual absl::Status Release() = 0;
  // Sync, other replicas: waits until the chief has made the result safe.
  virtual absl::Status AwaitRelease() = 0;
  // Async: tells peers that this replica pushes no more, or not for now.
  virtual void Leave() = 0;
  // A replica that was asked to stop: others may still need what it alone has of the state. Returns
  // when they do not, or soon.
  virtual void ServeOthers() {}
  // Of the optimizer's slots, in this process.
  virtual int64_t slot_bytes() const { return 0; }
  // Says goodbye to peers, so that they need not wait for this replica.
  virtual void Done() = 0;
  // Steps of all workers together as last heard.
  virtual int64_t global_step() const = 0;
  // Async: those at which all workers have ended, as last heard: workers may come and go. -1: not
  // known.
  virtual int64_t planned_steps() const { return -1; }
  // On the wire, so far.
  virtual int64_t bytes_sent() const = 0;
  virtual int64_t bytes_received() const = 0;
};

}  // namespace trainyard::engine
