// The parts of one server, and the arithmetic of pushes: no network, no clock, no membership beyond
// "who is expected in which round".
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/kvstore/buffer_pool.h"
#include "trainer/kvstore/gradient_reader.h"
#include "trainer/kvstore/lent_values.h"
#include "trainer/kvstore/mode.h"
#include "trainer/kvstore/part_round.h"
#include "trainer/kvstore/placement.h"
#include "trainer/kvstore/round_sum.h"
#include "trainer/kvstore/row_history.h"
#include "trainer/kvstore/row_payload.h"
#include "trainer/kvstore/worker_steps.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/tensor/compression.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/transport/payload.h"

namespace trainyard::engine {

// Fresh values of one part, and for whom.
struct PushAnswer {
  int part = 0;  // index into Placement::parts
  Payload values;
  int64_t step = 0;  // the global step that they belong to
  bool duplicate = false;
  std::vector<int> workers;
  Payload rows;                  // the rows that changed since these workers were answered last:
  std::vector<int> row_workers;  // they get them in place of `values`
};

// A round that some workers have pushed and others have not (sync).
struct OpenRound {
  int part = 0;
  int64_t step = 0;
  absl::Time since;
  std::vector<int> waiting;  // have pushed
  std::vector<int> missing;
};

// Thread-safe: a lock per part; no call holds two.
//
// Async: a push is applied at once. Sync: round r of a part is complete when every worker of the
// job has pushed step r. The gradients are then summed in tree order (tree_order.h), divided by the
// number of the workers' devices and applied. A worker pushes the sum over its devices. Where none
// had examples it pushes an empty gradient, which counts and adds nothing. Next values are averaged
// over the devices with examples.
// Until a round is complete the received bytes themselves are held, so nothing is copied or zeroed.
// The whole update is one pass over memory, in blocks that stay in cache. The pass is over the
// touched rows alone, with the same bits, where every gradient of an update is rows and the
// optimizer changes nothing without a gradient. A push for a later round is held until its round
// comes. A worker has one push per part on its way, so one place for each is enough.
//
// The values of parts that are long lie in `lendable` where that is not null and has room.
// Answers borrow the part's values, which an update leaves alone while they are lent. Answers hold
// the whole part, or the rows that changed since the last answer on the same stream: a worker has
// taken that answer before it pushes again. The first answer of a stream is whole, as answers on
// the stream before may be lost.
//
// With Compression::kBfloat16 pushes and answers of trainable parts hold bfloat16. Sums, values,
// slots and the optimizer's work are float32 all the same: answers are rounded copies.
class PartStore {
 public:
  // Async jobs may be scaled while they run: there is a place for so many workers, however many the
  // server was started with.
  static constexpr int kMostAsyncWorkers = 1024;
  static int Places(KvMode mode, int workers) { return mode == KvMode::kSync ? workers : std::max(workers, kMostAsyncWorkers); }
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  PartStore(std::vector<ParameterSpec> specs, const Placement& placement, int server, KvMode mode, int workers,
            std::unique_ptr<Optimizer> optimizer, const OptimizerConfig& config, Clock& clock = RealClock(), int devices = 1,
            LendableMemory* lendable = nullptr, Compression compression = Compression::kNone);

  bool Holds(int part) const { return local_[part] >= 0; }
  std::span<const int> parts() const { return parts_; }
  int slots() const { return slots_; }
  int64_t parameter_bytes() const { return values_bytes_; }

  // Start values; slot 0 is the parameter itself, n its optimizer slot n - 1. The payload is as
  // long as the part.
  void Assign(int part, int slot, const Payload& values);
  // FailedPrecondition names what was not assigned. After it, training goes on at `step`, from
  // values of step `values_step`.
  absl::Status Activate(int64_t step, int64_t values_step);
  // Async: values of a later step than those that Activate was told of, for a part that has taken
  // none since. False: they are not needed.
  bool TakeNewer(int part, int64_t step, const Payload& values);
  // Forgets what was assigned but not activated.
  void ForgetAssigned();

  // The gradient is as long as the part. Nothing: the round is not complete, the answer comes with
  // another call.
  std::optional<PushAnswer> Push(int part, int worker, int64_t step, PushedGradient gradient);
  // Sync: forgets pushes of rounds that are not complete. A new process of the worker makes them
  // again.
  void DropHeld(int worker);
  // Forgets everything: the store is as it was when it was made.
  void Reset();
  // Sync: rounds from `step` on are never done; what was pushed for them is dropped.
  // FailedPrecondition: a later one was done already.
  absl::Status EndAt(int64_t step);
  // Where a worker stands that this store has not seen yet: its steps are counted from there
  // (async).
  void SetPosition(int worker, int64_t step) { steps_->SetPosition(worker, step); }
  // A worker has just taken the current values: staleness counts from here.
  void SawCurrent(int worker) { steps_->SawCurrent(worker); }

  // As they are now: values are lent, slots copied.
  Payload Read(int part, int slot);
  // The values as an answer has them.
  Payload ReadAnswer(int part);
  // Updates of a part so far; sync: its open round.
  int64_t VersionOf(int part) const;

  // The lowest and the highest version of the parts held here; -1: there is none.
  struct Rounds {
    int64_t lowest = -1;
    int64_t highest = -1;
  };
  Rounds rounds() const;

  // Sync: the lowest round of any part. Async: worker steps applied.
  int64_t global_step() const { return steps_->global_step(); }
  // The next step of a worker that does not know; -1: this server holds nothing that could tell. A
  // worker that a running async job was scaled up by begins where the slowest of the first ones is.
  int64_t NextStepOf(int worker) const { return steps_->NextStepOf(worker); }
  bool Knows(int worker) const { return steps_->Knows(worker); }
  // Async: the global step at which each worker has done as many steps as `ends` says; -1: it does
  // none from here on.
  int64_t PlannedBy(std::span<const int64_t> ends) const { return steps_->PlannedBy(ends); }
  // The round that has been open longest; `now` - since is how long.
  std::optional<OpenRound> OldestOpenRound() const;

  using Counts = WorkerSteps::Counts;
  Counts counts() const { return steps_->counts(); }

 private:
  struct Answered {
    int64_t stream = -1;  // none yet
    int64_t version = -1;
  };
  struct State {
    State(const PartRows& part, size_t count, int workers, LendableMemory* lendable)
        : rows(part), history(part), values(count, lendable), round(workers) {}

    mutable absl::Mutex mutex;
    const PartRows rows;
    RowHistory history ABSL_GUARDED_BY(mutex);
    std::vector<Answered> answered ABSL_GUARDED_BY(mutex);  // by worker
    bool trainable = true;                                  // constant; false: pushes hold next values, and their mean becomes the value
    LentValues values ABSL_GUARDED_BY(mutex);
    std::vector<std::span<float>> slots ABSL_GUARDED_BY(mutex);
    uint64_t assigned ABSL_GUARDED_BY(mutex) = 0;        // bit n: slot n
    int64_t takes_from ABSL_GUARDED_BY(mutex) = kNever;  // async: values of this step or a later one are newer than the first ones
    int64_t version ABSL_GUARDED_BY(mutex) = 0;          // updates so far; sync: the open round
    std::vector<int64_t> next ABSL_GUARDED_BY(mutex);    // async, by worker: the first step not applied
    PartRound round ABSL_GUARDED_BY(mutex);              // sync; of step `version`
  };
  std::optional<PushAnswer> PushAsync(int part, State& state, int worker, int64_t step, const PushedGradient& gradient);
  std::optional<PushAnswer> PushSync(int part, State& state, int worker, int64_t step, PushedGradient gradient);
  // Sums the gradients (or next values) in tree order, takes the mean, applies it (or keeps it),
  // and answers their workers.
  PushAnswer Update(int part, State& state, std::span<const int> workers, std::span<const PushedGradient* const> gradients)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  // Async: by how many updates the values, of which the one worker made its gradient, are behind.
  // Sync: 0.
  int64_t StalenessOf(const State& state, std::span<const int> workers, std::span<const PushedGradient* const> gradients) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  // Update's pass over memory: `elements` of the part's `values`, in order.
  void UpdateRange(State& state, std::span<float> values, PartRows::Range elements, const UpdateContext& context, RoundSum& gradients,
                   std::span<std::span<float>> slots) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  // Those of the answer's workers for whom changed rows are enough get them, if they are shorter.
  void AnswerWithRows(State& state, std::span<const PushedGradient* const> gradients, PushAnswer& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  void SetVersion(State& state, int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  PushAnswer Duplicate(int part, State& state, int worker, int64_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  Payload AnswerOf(State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  State& StateOf(int part) const { return *states_[local_[part]]; }

  const std::vector<ParameterSpec> specs_;
  const std::vector<Part> all_parts_;
  const KvMode mode_;
  const std::unique_ptr<Optimizer> optimizer_;
  const OptimizerConfig config_;
  const int slots_;
  const int devices_;       // sync: of each worker
  std::vector<int> parts_;  // those held here
  std::vector<int> local_;  // by part: place in states_, -1 elsewhere
  int64_t values_bytes_ = 0;
  Buffer memory_;  // of slots
  BufferPool pool_;
  RoundMemories round_memories_;
  std::vector<std::unique_ptr<State>> states_;
  std::atomic<int64_t> end_step_ = kNever;  // sync
  Clock& clock_;

  std::unique_ptr<WorkerSteps> steps_;
};

}  // namespace trainyard::engine
