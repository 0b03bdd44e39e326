#include "trainer/checkpoint/checkpoint_evaluator.h"

#include <fmt/format.h>

#include <vector>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/finished_mark.h"

namespace trainyard::engine {
namespace {

absl::Status CheckVocabulary(const Checkpoint& checkpoint, const std::string& vocabulary) {
  const auto& state = checkpoint.info().state;
  const auto found = state.find(kVocabularyState);
  const std::string trained = found != state.end() ? found->second : "";
  if (trained == vocabulary) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "checkpoint {} was trained with another vocabulary (SHA-256 {:.16}) than this evaluator's text gives (SHA-256 {:.16}). Give "
      "the evaluator the data files and settings of the training",
      checkpoint.path(), trained, vocabulary));
}

}  // namespace

absl::StatusOr<std::optional<Checkpoint>> CheckpointEvaluator::FindNew(const EvaluationLog& log) {
  TY_ASSIGN_OR_RETURN(const std::vector<int64_t> newest_first, store_.Steps());
  for (auto step = newest_first.rbegin(); step != newest_first.rend(); ++step) {
    const std::string path = store_.PathOf(*step);
    const absl::StatusOr<std::string> digest = CheckpointStore::DigestOf(path);
    if (!digest.ok() || log.Contains(*step, *digest) || unreadable_.contains({*step, *digest})) continue;
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Read(path);
    if (checkpoint.ok()) return *std::move(checkpoint);
    if (absl::IsNotFound(checkpoint.status())) continue;  // taken away by rotation
    LogWarning("checkpoint {} is not evaluated: {}", path, std::string(checkpoint.status().message()));
    unreadable_.insert({*step, *digest});
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Evaluation>> CheckpointEvaluator::Next() {
  TY_ASSIGN_OR_RETURN(EvaluationLog log, EvaluationLog::Open(store_.dir()));
  TY_ASSIGN_OR_RETURN(const std::optional<Checkpoint> checkpoint, FindNew(log));
  if (!checkpoint) return std::nullopt;
  TY_RETURN_IF_ERROR(CheckModel(*checkpoint, parameters_.Fingerprint(), config_.model.name));
  TY_RETURN_IF_ERROR(CheckVocabulary(*checkpoint, vocabulary_));
  TY_RETURN_IF_ERROR(checkpoint->CopyTo(parameters_));
  const CheckpointInfo& info = checkpoint->info();
  Evaluation evaluation{.step = info.step, .epoch = info.position.last_epoch(), .metrics = {}};
  TY_ASSIGN_OR_RETURN(evaluation.metrics, evaluate_(parameters_));

  EvaluationJudge judge(config_.evaluate, config_.checkpoint);
  for (const LoggedEvaluation& logged : log.evaluations()) {
    if (logged.evaluation.step < evaluation.step) TY_RETURN_IF_ERROR(judge.Take(logged.evaluation).status());
  }
  TY_ASSIGN_OR_RETURN(const EvaluationJudge::Verdict verdict, judge.Take(evaluation));
  if (verdict.best) TY_RETURN_IF_ERROR(KeepBest(*checkpoint, judge));
  TY_RETURN_IF_ERROR(log.Add({.evaluation = evaluation, .checkpoint = checkpoint->digest()}));
  return evaluation;
}

absl::Status CheckpointEvaluator::KeepBest(const Checkpoint& checkpoint, const EvaluationJudge& judge) {
  TY_ASSIGN_OR_RETURN(const std::optional<CheckpointInfo> before, store_.BestInfo());
  // An evaluator that ended before it could log may have been first.
  if (before && before->step > checkpoint.info().step && judge.IsBetter(before->state)) return absl::OkStatus();
  CheckpointInfo info = checkpoint.info();
  info.state.merge(judge.BestState());
  return store_.SaveBest(info, checkpoint.Shards()).status();
}

absl::StatusOr<bool> CheckpointEvaluator::Finished(absl::Time now, absl::Duration patience) {
  TY_ASSIGN_OR_RETURN(const std::optional<int64_t> mark, FinishedStep(store_.dir()));
  if (!first_look_) {
    first_look_ = now;
    old_mark_ = mark.has_value();
  }
  if (!mark) old_mark_ = false;
  return mark && (!old_mark_ || now - *first_look_ >= patience);
}

}  // namespace trainyard::engine
