// How a gradient becomes a parameter: in this process (local) or in parameter servers (kvstore). The step loop knows only this.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/kvstore/client.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// One step is: Push for every trainable key, in the order in which backward finishes them, then one Wait. Keys that are not trainable are
// pushed in the same way, with the value that the step left for them in place of a gradient: it becomes the parameter as it is.
// Used from one thread. Errors name the replica, the operation, and tensor and step where there are such.
class Updater {
 public:
  virtual ~Updater() = default;
  // Fills `parameters` with the values to begin with: those of running servers, of a checkpoint, or the start values.
  virtual absl::StatusOr<KvStart> Start(ParameterSet& parameters) = 0;
  // Hands over the gradient (or next value) of `key`, which must stay as it is until Wait returns, its list of rows too.
  virtual void Push(int key, const GradientView& gradient, int64_t step) = 0;
  // Returns when every pushed parameter has its new value in `parameters`.
  virtual absl::StatusOr<KvStepResult> Wait(ParameterSet& parameters) = 0;
  // Parameters, optimizer slots and step as they are now: what a checkpoint holds. `parameters` are those that Wait filled.
  virtual absl::StatusOr<KvState> State(const ParameterSet& parameters) = 0;
  // Waits until no other replica changes the parameters any more, at most `deadline`; then `parameters` are final.
  virtual absl::Status AwaitOthers(absl::Duration deadline, ParameterSet& parameters) = 0;
  // Chief, between Wait and the next Push: ends the training of all replicas. In sync mode no step from `step` on is applied anywhere.
  virtual absl::Status End(int64_t step) = 0;
  // This replica is at work though it does not push: others go on waiting for it. Any thread; cheap.
  virtual void ShowActivity() = 0;
  // Tells peers that this replica pushes no more, or not for now: rounds of the others do not wait for it.
  virtual void Leave() = 0;
  // Says goodbye to peers, so that they need not wait for this replica.
  virtual void Done() = 0;
  // Steps of all workers together as last heard.
  virtual int64_t global_step() const = 0;
  // On the wire, so far.
  virtual int64_t bytes_sent() const = 0;
  virtual int64_t bytes_received() const = 0;
};

}  // namespace trainyard::engine
