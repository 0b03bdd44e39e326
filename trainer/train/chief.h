// The chief's work beside training: it evaluates at the ends of epochs, ends the training early,
// and closes the run. Where the job has an evaluator, it writes a checkpoint instead, which the
// evaluator evaluates. To close the run it waits for the other workers, evaluates their result, and
// writes the last checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/evaluation_judge.h"
#include "trainer/report/replica_report.h"
#include "trainer/train/layer_state.h"
#include "trainer/train/prediction_watch.h"
#include "trainer/train/run_checkpoints.h"
#include "trainer/train/training_run.h"

namespace trainyard::engine {

// Used from the step loop's thread. Its parts must outlive it.
class Chief {
 public:
  Chief(TrainingRun& run, const LayerState& layer_state, RunCheckpoints& checkpoints)
      : run_(run), layer_state_(layer_state), checkpoints_(checkpoints) {}

  // The training begins, or goes on after a rollback, at run.start: takes note of the steps that
  // come again, and of evaluations that are known.
  absl::Status Begin();
  // Between two steps: takes what the job's evaluator has found out since.
  absl::Status FollowEvaluator() { return FollowEvaluator(/*at_once=*/false); }
  // Ends the training of all workers here, if the evaluations say so.
  absl::Status StopIfDue();
  // The metrics of the parameters as they are, once for each step, and the end of the training if
  // they say so. Nothing where nothing is to be evaluated; with an evaluator in the job it gets a
  // checkpoint.
  absl::StatusOr<std::map<std::string, double>> EvaluateNow(int64_t epoch);
  // The job so far.
  ReplicaReport Report() const;
  // After the last step: makes the result safe. Returns what is to be reported of it.
  absl::StatusOr<ReplicaReport> Conclude();

 private:
  // The steps that come again are in the list of the run before they do.
  absl::Status NoteRedone();
  absl::Status FollowEvaluator(bool at_once);
  absl::StatusOr<std::map<std::string, double>> Metrics(const ParameterSet& parameters);
  // Evaluates the parameters as they are now, and keeps them if they are the best ones.
  absl::StatusOr<Evaluation> Evaluate(int64_t epoch);
  // The best checkpoint becomes the result of the training. Returns its metrics; nothing where
  // there is no better one than `now`.
  absl::StatusOr<std::optional<Evaluation>> RestoreBest(const Evaluation& now);
  void ReportEvaluations(ReplicaReport& report) const;
  // evaluation.json, of the parameters that are the result.
  absl::Status WriteEvaluation(int64_t step);

  TrainingRun& run_;
  const LayerState& layer_state_;
  RunCheckpoints& checkpoints_;
  std::optional<Evaluation> evaluation_;             // the newest of this process
  std::optional<PredictionWatch> predictions_;       // of it, where it has a matrix that a page can show
  std::optional<PredictionWatch> best_predictions_;  // of the best one, where that may become the result
};

}  // namespace trainyard::engine
