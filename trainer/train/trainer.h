// The step loop of a replica that trains (worker or chief): the page to read first.
//
//   batch → forward, backward (each gradient is pushed as soon as it is final) → Wait for the new parameters → record
//
// The chief also writes checkpoints, evaluates at the ends of epochs (where the job has an evaluator: writes a checkpoint that the
// evaluator evaluates), ends the training early, and closes the run: it waits for the other workers, evaluates what they left, and writes
// the last checkpoint.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/base/clock.h"
#include "trainer/data/prefetcher.h"
#include "trainer/train/carried_state.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/evaluation_book.h"
#include "trainer/train/model_runner.h"
#include "trainer/train/profiler.h"
#include "trainer/train/recorder.h"
#include "trainer/train/replica_identity.h"
#include "trainer/train/training_config.h"
#include "trainer/train/updater.h"

namespace trainyard::engine {

struct TrainerOptions {
  ReplicaIdentity identity;
  TrainingConfig config;
  std::string output = ".";  // folder for checkpoints, summaries, profiles and the report; relative folders of the job file are below it
  int http_port = 0;         // of /progress; 0: any free one
};

// Used from one thread. `backend` and `clock` must outlive it.
class Trainer {
 public:
  // Opens the data, compiles the model, loads or makes the start values lazily, and connects the updater. Errors name the file, field or
  // peer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(TrainerOptions options, Backend& backend, Clock& clock);
  ~Trainer();

  // Trains to the end. Cancelled when `stop` became true: the chief has then written a checkpoint.
  absl::Status Run(const std::function<bool()>& stop);

 private:
  class Pusher;

  Trainer(TrainerOptions options, Backend& backend, Clock& clock);
  absl::Status Init();
  // The newest good checkpoint's state, or the start values.
  absl::StatusOr<KvState> Load();
  KvState EmptyState() const;
  absl::Status CopyInto(const Checkpoint& checkpoint, KvState& state) const;
  absl::Status RunSteps(int64_t first_step, const std::function<bool()>& stop);
  absl::Status RunStep(int64_t step, const Batch& batch, absl::Time start);
  // What stateful layers carry: zeros at the start of an epoch, what was written down where a run goes on inside one.
  absl::Status BeginState(const Batch& batch);
  // Fills state_ for the step to come. NotFound and others: why there is none for it.
  absl::Status RestoreState();
  // Whether this worker writes its state beside the chief's checkpoints: those of asynchronous jobs are of no step of another worker.
  bool KeepsWorkerState() const { return !chief() && !async(); }
  absl::Status SaveWorkerState(int64_t step, const ParameterSet& state) { return worker_states_->Save(step, PlaceAfter(step), state); }
  std::string PlaceAfter(int64_t step) const;
  // Once, as soon as all that should be profiled is.
  absl::Status WriteProfile();
  absl::Status EndEpoch(const Batch& batch);
  absl::Status SaveCheckpoint();
  absl::StatusOr<std::string> Write(const KvState& state, bool best);
  absl::StatusOr<std::map<std::string, double>> Metrics(const ParameterSet& parameters);
  // Evaluates the parameters as they are now, and keeps them if they are the best ones.
  absl::StatusOr<Evaluation> Evaluate(int64_t epoch);
  // Takes what the job's evaluator has found out since.
  absl::Status FollowEvaluator(bool at_once);
  // Ends the training of all workers here, if the evaluations say so.
  absl::Status StopIfDue();
  // This worker does no more steps.
  void EndHere();
  // The best checkpoint becomes the result of the training. Returns its metrics; nothing where there is no better one than `now`.
  absl::StatusOr<std::optional<Evaluation>> RestoreBest(const Evaluation& now);
  void ReportEvaluations(ReplicaReport& report) const;
  absl::Status Conclude();

  bool chief() const { return options_.identity.is_chief(); }
  bool async() const;
  int workers() const { return std::max(1, options_.identity.trainer_count()); }
  // Steps of all workers together.
  int64_t JobSteps(int64_t worker_steps) const { return async() ? worker_steps * workers() : worker_steps; }

  const TrainerOptions options_;
  const TrainingConfig& config_;  // of options_
  Clock& clock_;
  ModelRunner model_;
  std::unique_ptr<Dataset> train_data_;
  std::unique_ptr<Dataset> eval_data_;  // null: nothing is evaluated
  SamplerOptions state_place_;          // of this worker's text: what StatePlace reads
  std::unique_ptr<Sampler> sampler_;
  int64_t end_step_ = 0;  // of this worker
  ParameterSet parameters_;
  ParameterSet gradients_;
  std::vector<std::string> slot_names_;
  std::unique_ptr<CheckpointStore> checkpoints_;
  std::unique_ptr<WorkerStateStore> worker_states_;
  std::optional<Checkpoint> resumed_;  // what Load took, if it holds state, until the first step has it
  ParameterSet* state_ = nullptr;      // what stateful layers carry, the model's; null: nothing, or no step yet
  ParameterSet state_before_;          // KeepsWorkerState: as it was before the last step
  std::unique_ptr<Profiler> profiler_;
  std::unique_ptr<Updater> updater_;  // writes to the profiler's log
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Pusher> pusher_;
  std::unique_ptr<EvaluationBook> book_;  // chief only, from Run on
  int64_t step_ = 0;                      // the next step of this worker
  int64_t global_step_ = 0;
  int64_t checkpointed_step_ = -1;
  std::optional<Evaluation> evaluation_;  // the newest of this process
  bool ended_ = false;                    // by the chief, before the planned end
};

}  // namespace trainyard::engine
