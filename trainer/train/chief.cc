#include "trainer/train/chief.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/base/file.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/finished_mark.h"
#include "trainer/data/open/class_names.h"
#include "trainer/report/evaluation_record.h"
#include "trainer/train/evaluation_watch.h"
#include "trainer/train/not_finite.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kOthersDeadline = absl::Hours(24);
constexpr int kMostClasses = 100;  // of a matrix on a page

}  // namespace

absl::Status Chief::Begin() {
  if (evaluation_ && evaluation_->step > run_.global_step) evaluation_.reset();
  const std::string& dir = run_.saver->checkpoints().dir();
  if (run_.book == nullptr) {
    TY_RETURN_IF_ERROR(ClearFinished(dir));
    TY_ASSIGN_OR_RETURN(run_.book, EvaluationBook::Open(run_.config, dir, run_.global_step, run_.clock));
  } else {
    TY_RETURN_IF_ERROR(run_.book->ForgetAfter(run_.global_step));
  }
  TY_RETURN_IF_ERROR(NoteRedone());
  return StopIfDue();
}

absl::Status Chief::NoteRedone() {
  const std::string& dir = run_.saver->checkpoints().dir();
  if (!run_.sync()) return RedoneLog::Clear(dir);
  const TrainingStart& start = run_.start;
  if (run_.redone == nullptr) {
    TY_ASSIGN_OR_RETURN(run_.redone, RedoneLog::Open(dir));
    run_.recorder->TellFirst(run_.redone.get());
    const bool trains = run_.step < run_.end_step && !start.ended && !run_.book->judge().stopped();
    if (trains && !run_.redone->under_way()) TY_RETURN_IF_ERROR(run_.redone->Forget());
  }
  std::optional<RedoneRecord> known;
  if (start.redone) known = {.from = start.redone->from, .to = start.redone->to, .reason = start.redone->reason};
  TY_ASSIGN_OR_RETURN(const std::optional<RedoneRecord> added, run_.redone->Begin(run_.global_step, known));
  if (added) LogWarning("steps {} to {} are done again: {}", added->from, added->to, added->reason);
  return absl::OkStatus();
}

absl::Status Chief::StopIfDue() {
  const EvaluationJudge& judge = run_.book->judge();
  if (run_.ended || !judge.stopped() || run_.step >= run_.end_step) return absl::OkStatus();
  LogInfo("early stopping: {}", judge.StopReason());
  TY_RETURN_IF_ERROR(run_.updater->End(run_.step));
  run_.recorder->OnStoppedEarly(judge.StopReason());
  run_.EndHere();
  return absl::OkStatus();
}

absl::Status Chief::FollowEvaluator(bool at_once) {
  if (!run_.config.evaluator) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(const std::vector<Evaluation> fresh, run_.book->TakeNew(at_once));
  for (const Evaluation& evaluation : fresh) run_.recorder->OnEvaluation(evaluation, run_.book->judge().best());
  return StopIfDue();
}

absl::StatusOr<std::map<std::string, double>> Chief::EvaluateNow(int64_t epoch) {
  if (!run_.eval_data) return std::map<std::string, double>();
  if (run_.config.evaluator) {
    TY_RETURN_IF_ERROR(checkpoints_.SaveMeanwhile());
    return std::map<std::string, double>();
  }
  if (!evaluation_ || evaluation_->step != run_.global_step) TY_RETURN_IF_ERROR(Evaluate(epoch).status());
  TY_RETURN_IF_ERROR(StopIfDue());
  return evaluation_->metrics;
}

absl::StatusOr<std::map<std::string, double>> Chief::Metrics(const ParameterSet& parameters) {
  const ActivityTicker::Work work(*run_.ticker);
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(run_.config.model));
  predictions_ = expected.classes <= kMostClasses ? PredictionWatch::For(expected) : std::nullopt;
  TY_ASSIGN_OR_RETURN(const int64_t examples, ModelRunner::EvaluatedExamples(run_.eval_data->info(), run_.config.batch_size));
  EvaluationWatch watch({.who = run_.Name(),
                         .examples = examples,
                         .stop = run_.stop,
                         .told = [this](const std::string& text) { run_.recorder->OnWait(text); }},
                        run_.clock);
  TY_ASSIGN_OR_RETURN(const ModelScore score, run_.evaluated_model.Evaluate(*run_.eval_data, run_.config.batch_size, parameters,
                                                                            watch.Seen(predictions_ ? predictions_->Seen() : nullptr)));
  return MetricsOf(run_.config.model, score);
}

absl::StatusOr<Evaluation> Chief::Evaluate(int64_t epoch) {
  EvaluationBook& book = *run_.book;
  Evaluation evaluation{.step = run_.global_step, .epoch = epoch, .metrics = {}};
  if (book.judge().keeps_best() || run_.trains_rounded()) {
    // What is evaluated is what a checkpoint has. In async mode the others go on meanwhile; and
    // parameters that have travelled may be rounded.
    TY_ASSIGN_OR_RETURN(TrainingState state, run_.updater->State(run_.parameters));
    evaluation.step = state.step;
    TY_ASSIGN_OR_RETURN(evaluation.metrics, Metrics(state.parameters));
    TY_ASSIGN_OR_RETURN(const EvaluationJudge::Verdict verdict, book.Add(evaluation));
    if (verdict.best && book.judge().restores_best()) best_predictions_ = predictions_;
    // With an evaluator these are the last parameters: the job may end before it comes to them.
    if (book.judge().keeps_best() && verdict.best) {
      TY_RETURN_IF_ERROR(CheckFinite(StateView(state), "best checkpoint"));
      const ActivityTicker::Work work(*run_.ticker);
      TY_RETURN_IF_ERROR(run_.saver->SaveBestMeanwhile(std::move(state), layer_state_.Place(evaluation.step), book.judge().BestState()));
    }
  } else {
    TY_RETURN_IF_ERROR(run_.updater->Refresh(run_.parameters));
    TY_ASSIGN_OR_RETURN(evaluation.metrics, Metrics(run_.parameters));
    TY_RETURN_IF_ERROR(book.Add(evaluation).status());
  }
  TY_RETURN_IF_ERROR(run_.recorder->OnOwnEvaluation(evaluation, book.judge().best()));
  evaluation_ = evaluation;
  return evaluation;
}

absl::StatusOr<std::optional<Evaluation>> Chief::RestoreBest(const Evaluation& now) {
  const EvaluationJudge& judge = run_.book->judge();
  if (!judge.restores_best()) return std::nullopt;
  // Where the evaluator did not get to the last checkpoint yet, the best one is still an older one.
  if (judge.best() && judge.best()->step == now.step) return std::nullopt;
  const ActivityTicker::Work work(*run_.ticker);
  TY_ASSIGN_OR_RETURN(const std::optional<Checkpoint> best, run_.saver->LoadBest());
  if (!best || best->info().step == now.step) return std::nullopt;
  TY_ASSIGN_OR_RETURN(TrainingState state, run_.saver->StateOf(*best));
  TY_RETURN_IF_ERROR(best->CopyTo(run_.parameters));
  state.step = run_.global_step;  // where a resumed training goes on, from the best parameters
  TY_RETURN_IF_ERROR(run_.saver->Save(StateView(state), layer_state_.Place(state.step)));
  TY_RETURN_IF_ERROR(checkpoints_.Follow());
  LogInfo("restored the best checkpoint, of step {}", best->info().step);
  if (const Evaluation* known = run_.book->Find(best->info().step)) {
    // Predictions of an evaluator, or of a chief before this one, are made again.
    if (predictions_ && !best_predictions_) {
      TY_RETURN_IF_ERROR(Metrics(run_.parameters).status());
    } else {
      predictions_ = std::exchange(best_predictions_, std::nullopt);
    }
    return *known;
  }
  Evaluation evaluation{.step = best->info().step, .epoch = best->info().position.last_epoch(), .metrics = {}};
  TY_ASSIGN_OR_RETURN(evaluation.metrics, Metrics(run_.parameters));
  return evaluation;
}

void Chief::ReportEvaluations(ReplicaReport& report) const {
  const EvaluationJudge& judge = run_.book->judge();
  if (run_.ended && judge.stopped()) report.stopped_early = EarlyStopRecord{.reason = judge.StopReason(), .step = run_.global_step};
  if (!judge.best()) return;
  report.best = BestRecord{.metric = judge.best_metric(),
                           .value = judge.best()->value,
                           .step = judge.best()->step,
                           .checkpoint = run_.saver->checkpoints().BestPath(),
                           .restored = judge.restores_best()};
}

absl::Status Chief::WriteEvaluation(int64_t step) {
  if (!predictions_ || predictions_->matrix().total() == 0) return absl::OkStatus();
  const ConfusionMatrix& matrix = predictions_->matrix();
  TY_ASSIGN_OR_RETURN(std::vector<std::string> names, ClassNamesOf(run_.config.data, matrix.classes()));
  return TellIfMayPass(
      WriteEvaluationRecord(run_.options.output,
                            {.step = step, .classes = std::move(names), .matrix = matrix, .mistakes = predictions_->mistakes()}),
      "evaluation.json");
}

ReplicaReport Chief::Report() const {
  ReplicaReport report;
  report.model = run_.config.model.name;
  report.strategy = StrategyText(run_.config.strategy);
  report.batch_size = run_.config.batch_size;
  report.devices = run_.config.devices;
  report.precision = PrecisionName(run_.precision.precision);
  report.precision_reason = run_.precision.reason;
  report.kernels = run_.kernels;
  report.computed_on = ChosenText(run_.place);
  report.computed_on_reason = run_.place.reason;
  report.steps = run_.global_step;
  report.planned_steps = run_.JobSteps(run_.end_step);
  report.epochs = run_.step > 0 ? run_.sampler->At(run_.step - 1).epoch + 1 : 0;
  report.planned_epochs = run_.config.epochs;
  report.all_reduce = run_.all_reduce_record;
  if (evaluation_) report.eval = evaluation_->metrics;
  if (run_.redone != nullptr) report.redone = run_.redone->records();
  return report;
}

absl::StatusOr<ReplicaReport> Chief::Conclude() {
  // In sync mode the last step of one worker is that of all.
  TY_RETURN_IF_ERROR(run_.sync() ? run_.updater->Refresh(run_.parameters) : run_.updater->AwaitOthers(kOthersDeadline, run_.parameters));
  if (run_.sync() && run_.trains_rounded()) {
    TY_RETURN_IF_ERROR(run_.updater->Look(run_.parameters, [this](const StateView& state) {
      CopyValues(state.parameters, run_.parameters);
      return absl::OkStatus();
    }));
  }
  run_.global_step = std::max(run_.global_step, run_.updater->global_step());
  const int64_t epoch = run_.end_step > 0 ? run_.sampler->At(run_.end_step - 1).epoch : 0;
  if (run_.config.evaluator) {
    TY_RETURN_IF_ERROR(checkpoints_.SaveNow());  // for the evaluator, while the chief makes sure of its own result
    TY_RETURN_IF_ERROR(FollowEvaluator(/*at_once=*/true));
  }
  Evaluation last;
  std::optional<Evaluation> restored;
  if (run_.eval_data) {
    if (evaluation_ && evaluation_->step == run_.global_step) {
      last = *evaluation_;
    } else {
      TY_ASSIGN_OR_RETURN(last, Evaluate(epoch));
    }
    TY_ASSIGN_OR_RETURN(restored, RestoreBest(last));
  }
  TY_RETURN_IF_ERROR(run_.recorder->OnEpoch(epoch, run_.global_step, last.metrics, run_.parameters));
  if (restored) run_.recorder->OnEvaluation(*restored, run_.book->judge().best());
  TY_RETURN_IF_ERROR(checkpoints_.SaveNow());
  TY_RETURN_IF_ERROR(run_.saver->best_status());
  const CheckpointStore& checkpoints = run_.saver->checkpoints();
  if (run_.config.evaluator) TY_RETURN_IF_ERROR(MarkFinished(checkpoints.dir(), run_.saver->checkpointed_step()));
  TY_RETURN_IF_ERROR(WriteEvaluation(restored ? restored->step : last.step));
  ReplicaReport report = Report();
  // Asynchronous workers that were taken away have left steps of the plan to nobody.
  if (run_.async()) report.planned_steps = report.steps;
  report.eval = restored ? restored->metrics : last.metrics;
  report.parameters_sha256 = run_.parameters.Sha256Hex();
  ReportEvaluations(report);
  return report;
}

}  // namespace trainyard::engine
