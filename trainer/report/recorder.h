// Everything a replica that trains tells the world while it runs: TensorBoard summaries, /progress
// and /metrics, and its part of the report. The step loop calls it; it never changes the training.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/checkpoint/evaluation_judge.h"
#include "trainer/data/stage_log.h"
#include "trainer/devices/gpu_meter.h"
#include "trainer/graph/graph.h"
#include "trainer/profile/step_range.h"
#include "trainer/report/epoch_log.h"
#include "trainer/report/epoch_loss.h"
#include "trainer/report/gpu_watch.h"
#include "trainer/report/input_times.h"
#include "trainer/report/loss_watch.h"
#include "trainer/report/meters.h"
#include "trainer/report/progress_server.h"
#include "trainer/report/report.h"
#include "trainer/report/summary_writer.h"
#include "trainer/report/termination_message.h"
#include "trainer/report/usage_series.h"

namespace trainyard::engine {

struct Batch;
class RedoneLog;

struct RecorderOptions {
  std::string role = "worker";
  int index = 0;
  bool chief = true;
  std::string output;          // the run's folder: replicas/ is below it
  std::string summary_dir;     // "" or summary_every 0: no summaries
  int64_t summary_every = 20;  // steps between two scalars
  int64_t batch_size = 1;      // examples of one global step
  SpeedUnit unit;
  bool perplexity = false;  // a language model: exp(loss) is told beside the loss
  std::string listen_host = "127.0.0.1";
  int http_port = 0;  // of /progress; 0: any free one
  // The file of a container's termination message: the chief's final progress goes there
  // (docs/contract.md). Absent outside of pods.
  std::string termination_log = kTerminationLog;
  GpuMeter* gpus = nullptr;  // of the GPUs that the replica computes on; null: it does on the processor. Outlives the recorder
};

// Times and results of one step of this replica.
struct StepRecord {
  int64_t step = 0;         // this replica's, counted from 0
  int64_t global_step = 0;  // of the job, after this step
  int64_t epoch = 0;
  int64_t examples = 0;
  double loss = 0;
  double learning_rate = 0;  // of its update, as far as this replica knows the job's step
  int64_t staleness = 0;
  bool skipped = false;                // loss or gradient were not finite, and it changed nothing
  std::optional<double> loss_scale{};  // of the step (optim/loss_scale.h)
  bool overflowed = false;             // it was left out for that
  std::span<const StageSpan> input;    // how its batch was made; need not live longer than the call
  absl::Time start;                    // waiting for input begins
  absl::Time input_done;               // the batch is there
  absl::Time compute_done;             // forward and backward are done
  absl::Time end;                      // the new parameters are there
};

// Used from the step loop's thread.
class Recorder {
 public:
  // Unavailable names the port or folder that could not be had. `clock` must outlive the recorder.
  static absl::StatusOr<std::unique_ptr<Recorder>> Create(RecorderOptions options, Clock& clock);

  // Chief only: the graph page, and the first images of a batch. A batch whose examples no PNG can
  // show is left out.
  absl::Status OnGraph(const Graph& graph);
  absl::Status OnImages(const Batch& batch);
  // Nanoseconds by name of the graph's node, the mean over the profiled steps: colours of the graph
  // page.
  absl::Status OnNodeTimes(const StepRange& steps, const std::map<std::string, int64_t>& nanos);

  // For /progress, which launch and the operator tell.
  void OnWarning(const std::string& warning);
  // The chief waits for this; "": for nothing, or not for long.
  void OnWait(const std::string& waiting);
  // The training goes on from a checkpoint, with the loss that LossStart() told then.
  void OnLossStart(double start) { loss_watch_.GoOnFrom(start); }
  std::optional<double> LossStart() const { return loss_watch_.settled_start(); }
  // The same of the epoch under way: what EpochLossText() told then. It counts from the next
  // OnStart, or OnRollback to an earlier step.
  void OnEpochLoss(const std::string& text) { resumed_epoch_loss_ = EpochLoss::FromText(text); }
  std::string EpochLossText() const { return epoch_loss_.ToText(); }
  // The first step's time counts from here. `total_steps` of the job, as /progress tells it.
  void OnStart(int64_t global_step, int64_t total_steps);
  // The training was rolled back to `global_step`: records of later steps are forgotten, and come
  // again.
  void OnRollback(int64_t global_step, int64_t total_steps);
  absl::Status OnStep(const StepRecord& step);
  // The log hears of every step before /progress tells it. It must outlive the recorder.
  void TellFirst(RedoneLog* log) { redone_ = log; }
  // The step ends the training and has no place among the job's steps: its loss is told before the
  // replica fails, behind the steps that were done.
  void OnNotFinite(const StepRecord& step);
  // An epoch of this replica has ended; `eval` is empty when nothing was evaluated. Chief:
  // histograms of the parameters too.
  absl::Status OnEpoch(int64_t epoch, int64_t global_step, const std::map<std::string, double>& eval, const ParameterSet& parameters);
  // Whether the epoch that ended at this step has a loss and was not told, because the chief was
  // lost between its checkpoint and OnEpoch.
  bool OwesEpoch(int64_t global_step) const { return !epoch_loss_.empty() && (history_.empty() || history_.back().step != global_step); }
  void OnCheckpoint(int64_t global_step);
  // The newest evaluation, this replica's or the evaluator's, and the best one where that is kept.
  // Where an epoch ended at its step, the epoch's record gets it.
  void OnEvaluation(const Evaluation& evaluation, const std::optional<MetricTracker::Best>& best);
  // The same of one that this replica has made: it is in the summaries, too.
  absl::Status OnOwnEvaluation(const Evaluation& evaluation, const std::optional<MetricTracker::Best>& best);
  // Writes what the summaries have so far. So a process that goes on from a checkpoint, after a
  // kill, leaves no gap in the curves before it.
  void FlushSummaries();
  // Workers have come or gone: the job has other steps to do.
  void OnPlan(int64_t total_steps) { progress_.total_steps = total_steps; }
  // The steps that were planned are not done.
  void OnStoppedEarly(const std::string& reason);
  void OnRestart(RestartRecord record);
  // The same, of checkpoints that cannot be used, the newest first: a person is warned.
  void OnSkippedCheckpoints(std::vector<RestartRecord> records);
  // Chief, sync: a worker is slow beside the others, until OnStragglerEnds of its name.
  void OnStragglerBegins(StragglerRecord record);
  void OnStragglerEnds(const std::string& replica, int64_t global_step);
  // Own seconds of a step, by name of replica.
  void OnPaces(std::vector<std::pair<std::string, double>> seconds) { progress_.worker_step_seconds = std::move(seconds); }

  // Of the optimizer's slots in this process.
  void OnSlotBytes(int64_t bytes) { slot_bytes_ = bytes; }

  const Meters& meters() const { return meters_; }
  // The newest one of /progress; "": there was none.
  const std::string& warning() const { return progress_.warning; }

  // The chief was asked to stop, and has a checkpoint: leaves its termination message, so that the
  // job's status has the step that the training goes on from.
  void OnStopped(int64_t checkpointed_step);

  // Writes replicas/<role>-<index>.json: `report` with all that this object knows added and what
  // went over the wire.
  absl::Status WriteReport(ReplicaReport report, int64_t bytes_sent, int64_t bytes_received);
  // The same at the end of a training that did its steps, and the chief's termination message.
  absl::Status Finish(ReplicaReport report, int64_t bytes_sent, int64_t bytes_received);

 private:
  Recorder(RecorderOptions options, Clock& clock);
  void GoOnAfter(int64_t global_step);
  void Publish(const StepRecord& step);
  void WatchLoss(const StepRecord& step);
  double MeanStaleness() const { return meters_.steps() > 0 ? staleness_sum_ / static_cast<double>(meters_.steps()) : 0; }
  void WriteTerminationMessage(int64_t step);

  const RecorderOptions options_;
  Clock& clock_;
  std::unique_ptr<SummaryWriter> summaries_;  // null: none wanted
  std::unique_ptr<ProgressServer> server_;
  InputTimes input_times_;
  UsageSeries usage_;     // of the report
  CpuMeter summary_cpu_;  // of the summaries
  GpuWatch gpus_;
  Meters meters_;      // this replica's steps
  Meters job_meters_;  // examples of all replicas, seen through the global step
  Progress progress_;
  RedoneLog* redone_ = nullptr;  // null: nobody keeps one
  absl::Time last_published_ = absl::InfinitePast();
  int64_t last_global_step_ = 0;
  EpochLoss epoch_loss_;
  EpochLoss resumed_epoch_loss_;
  absl::Time epoch_start_;
  LossWatch loss_watch_;
  bool warned_of_loss_ = false;
  int64_t skipped_ = 0;
  std::optional<double> loss_scale_;  // of the last step
  int64_t overflowed_ = 0;
  std::optional<int64_t> slot_bytes_;
  double staleness_sum_ = 0;
  Staleness staleness_;
  std::vector<EpochRecord> history_;
  std::optional<EpochLog> epochs_;  // of the chief: history_, for a process that goes on in its place
  std::vector<RestartRecord> restarts_;
  std::vector<StragglerRecord> stragglers_;
};

}  // namespace trainyard::engine
