// The state that stateful layers carry from batch to batch (ModelRunner::TrainingState), stored so
// that a resumed run goes on with it.
//
// State belongs to a place: row n of it follows the text that row n of the last batch ended with. A
// checkpoint holds the chief's, of each of its devices, in the shard "state" (StateSlot), and its
// place in the manifest. The others of a synchronous job write theirs beside the checkpoints, as
// <checkpoints>/state-worker-<rank>/step-<n>.safetensors. A device's rank is worker * devices + its
// index. They do so at the same steps, at the end, and when they are stopped. Then they write the
// states of the last two steps, because the chief may have stopped one step before. A worker
// without stored state for its place starts from zeros and says so. At the start of an epoch zeros
// are right. That happens with another number of workers or devices, another batch size, an
// asynchronous job or no shared folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "trainer/data/sampler.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

inline constexpr char kStateShard[] = "state";
inline constexpr char kStatePlace[] = "statePlace";  // of the manifest's `state`

// What names the tensors of a device of the chief in the shard: nothing for the first one,
// "device-1" and so on for the others.
std::string StateSlot(int device);

// The place of worker options.worker of such a job after `position`, in words: equal places, equal
// text around every row.
std::string StatePlace(const SamplerOptions& options, const SamplerPosition& position);

// The files of one worker. Not thread-safe.
class WorkerStateStore {
 public:
  // Below the folder of the checkpoints; keeps the newest `keep` files.
  WorkerStateStore(const std::string& checkpoint_dir, int rank, int keep);

  // The state after `step` steps, durably.
  absl::Status Save(int64_t step, const std::string& place, const ParameterSet& state) const;
  // Fills `state` with what was saved for `step`. NotFound: nothing was; FailedPrecondition: it is
  // of another place; DataLoss, InvalidArgument: a damaged file or other tensors.
  absl::Status Load(int64_t step, const std::string& place, ParameterSet& state) const;

  // Whether something was saved for `step`.
  bool Has(int64_t step) const;

 private:
  std::string PathOf(int64_t step) const;
  void RemoveOldOnes(int64_t newest) const;

  const std::string dir_;
  const int keep_;
};

}  // namespace trainyard::engine
