// The stored state of a run, from which it goes on after a stop. It is the chief's checkpoints, the
// best one among them, and the state that the recurrent layers of every worker carry from batch to
// batch.
//
// Checkpoints are written by a thread of their own from a snapshot, while the training goes on. One
// is written at a time, and the next waits for it. Where memory has no room for a snapshot, a
// checkpoint is written while the training waits. A full disk does not end a training: it is told,
// and the next checkpoint tries again. Only the one at the end of the run must succeed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/clock.h"
#include "trainer/base/disk.h"
#include "trainer/checkpoint/carried_state.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/save_thread.h"
#include "trainer/data/sampler.h"
#include "trainer/job/training_config.h"
#include "trainer/optim/training_state.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

struct RunSaverOptions {
  std::string dir;  // of the checkpoints
  std::vector<ParameterSpec> specs;
  std::vector<std::string> slot_names;  // Optimizer::slot_names()
  SamplerOptions place;                 // of the first device's text: what StatePlace reads
  int devices = 1;                      // of this worker, whose ranks follow each other from place.worker on
  bool chief = true;
  std::string vocabulary_sha256;  // "": the model takes no tokens
  std::string description;        // model.json (model_description.h); of the chief
};

// Where a worker is when it saves.
struct RunPlace {
  int64_t step = 0;                          // the next one of this worker
  std::vector<const ParameterSet*> carried;  // by stateful layers, by device; empty: nothing
  std::string loss_scale{};                  // LossScale::ToText(); "": the precision needs none
  std::optional<double> loss_start{};        // the training's first loss (report/loss_watch.h), once it is known
  std::string epoch_loss{};                  // EpochLoss::ToText()
};

// Of the manifest's `state`.
inline constexpr char kLossScaleState[] = "lossScale";
inline constexpr char kLossStartState[] = "lossStart";
inline constexpr char kEpochLossState[] = "epochLoss";

// "local", "parameterServer/sync", "parameterServer/async, compression bfloat16", "allReduce/auto":
// for reports and manifests.
std::string StrategyText(const StrategyConfig& strategy);

// Used from the step loop's thread. Errors name the file.
class RunSaver {
 public:
  // `config`, `sampler`, `clock` and `disk` must outlive it.
  RunSaver(RunSaverOptions options, const TrainingConfig& config, const Sampler& sampler, Clock& clock, Disk& disk = RealDisk());

  // Parameters and slots of zeros. ResourceExhausted: memory has no room for them.
  absl::StatusOr<TrainingState> EmptyState() const;

  struct Loaded {
    std::optional<TrainingState> state;      // absent: there is no good checkpoint
    std::vector<SkippedCheckpoint> skipped;  // newer checkpoints that are torn
    std::string loss_scale{};                // as of RunPlace; "": the checkpoint has none
    std::optional<double> loss_start{};
    std::string epoch_loss{};
  };
  // Which good checkpoints count.
  enum class Which : uint8_t {
    kNewest,
    // The newest that every worker has written its carried state for. The newest of all where other
    // workers or devices wrote it, so that nobody here can have state.
    kNewestForAll,
    // The same for a job that begins. It goes on from the newest where no checkpoint has all that
    // state, as without a shared folder, and where `finished` says so of its step.
    kNewestToBegin,
  };
  // RunPlace's losses of the newest checkpoint, for a chief that joins running servers.
  struct NotedLosses {
    std::optional<double> start{};
    std::string of_epoch{};
  };
  NotedLosses NewestLosses() const;
  absl::StatusOr<Loaded> Load(Which which, const std::function<bool(int64_t step)>& finished = {});

  // Whether a checkpoint is due after `step` steps of this worker.
  bool DueBySteps(int64_t step) const { return config_.checkpoint.every_steps > 0 && step % config_.checkpoint.every_steps == 0; }
  // Whether checkpoint.everySeconds have passed since the last one was written.
  bool DueByTime() const;
  // Whether memory has room for a snapshot.
  bool HasRoom() const;

  // Begins to write a checkpoint of `state` and returns; the checkpoint before it is waited for.
  // Its outcome comes with Finished.
  absl::Status SaveMeanwhile(TrainingState state, const RunPlace& place);
  // The same with <dir>/best; `judged` is what the judge of evaluations keeps in it.
  absl::Status SaveBestMeanwhile(TrainingState state, const RunPlace& place, std::map<std::string, std::string> judged);
  // Writes a checkpoint here, even where the newest one is of its step.
  absl::Status Save(const StateView& state, const RunPlace& place);
  // A full disk, a volume that does not answer, and a folder that was removed meanwhile (NotFound)
  // are told, and become OK: the next checkpoint tries again.
  absl::Status Spare(const absl::Status& status, int64_t step);
  // What Spare has told since the last call; "": nothing.
  std::string TakeUnwritten() { return std::exchange(unwritten_, ""); }

  struct Saved {
    int64_t step = 0;
    std::string digest;  // Checkpoint::digest()
  };
  // Checkpoints that were written since the last call. A full disk is told here; other errors end
  // the training.
  absl::StatusOr<std::vector<Saved>> Finished();
  // Waits for the save under way.
  absl::Status Settle() { return AwaitLast(""); }
  // ResourceExhausted: the best checkpoint could not be written.
  const absl::Status& best_status() const { return best_status_; }

  // Nothing where there is none.
  absl::StatusOr<std::optional<Checkpoint>> LoadBest();
  // A checkpoint's parameters and slots, at the checkpoint's step.
  absl::StatusOr<TrainingState> StateOf(const Checkpoint& checkpoint) const;

  // Fills `carried` with what the layers of a device carried before `step`. NotFound and others:
  // why there is nothing for it.
  absl::Status RestoreCarried(int device, int64_t step, ParameterSet& carried);
  // Nothing before the run's first batch is needed any more.
  void ForgetCarried() { resumed_.reset(); }
  // Of a device of a worker that is not the chief.
  absl::Status SaveCarried(int device, int64_t step, const ParameterSet& carried) const {
    return device_states_[device].Save(step, PlaceAfter(device, step), carried);
  }

  // The newest checkpoint that is written or under way, -1: none yet.
  int64_t checkpointed_step() const { return checkpointed_step_; }
  const CheckpointStore& checkpoints() const { return checkpoints_; }

 private:
  int64_t StateBytes() const;
  // A checkpoint's own description.
  CheckpointInfo InfoOf(int64_t state_step, const RunPlace& place, std::map<std::string, std::string> judged) const;
  // Any thread.
  absl::Status Write(const StateView& state, std::span<const ParameterSet* const> carried, const CheckpointInfo& info, bool best);
  absl::Status Begin(TrainingState state, const RunPlace& place, std::map<std::string, std::string> judged, bool best);
  // Waits for the save under way, and takes its outcome.
  absl::Status AwaitLast(std::string_view next);
  absl::Status TakeOutcome();
  absl::StatusOr<NewestCheckpoint> Newest(Which which, const std::function<bool(int64_t step)>& finished) const;
  absl::StatusOr<NewestCheckpoint> NewestForAll() const;
  // Its state was written by another number of workers or devices: no device of this job has its
  // part of it.
  bool IsOfOtherDevices(const Checkpoint& checkpoint) const;
  std::string PlaceAfter(int device, int64_t step) const;
  // Where the input goes on after a checkpoint: as the sampler has it, unless other workers or
  // batches make its step another place.
  InputOrigin OriginOf(const CheckpointInfo& info) const;

  const RunSaverOptions options_;
  const TrainingConfig& config_;
  const Sampler& sampler_;
  const uint64_t fingerprint_;
  Clock& clock_;
  CheckpointStore checkpoints_;
  std::vector<WorkerStateStore> device_states_;  // by device
  std::optional<Checkpoint> resumed_;            // what Load took, if it holds carried state, until the first step has it
  std::string unwritten_;
  int64_t checkpointed_step_ = -1;
  int64_t checkpointed_before_ = -1;  // should the one under way fail
  absl::Time last_save_;              // or the start
  struct UnderWay {
    int64_t step = 0;
    bool best = false;
  };
  std::optional<UnderWay> under_way_;
  std::vector<Saved> finished_;
  absl::Status best_status_;
  SaveThread thread_;  // last: its end waits for a save, which uses the rest
};

}  // namespace trainyard::engine
