#include "trainer/report/evaluation_tally.h"

#include <algorithm>

namespace trainyard::engine {
namespace {

MetricRule RuleOf(const EvaluateConfig& evaluate, const CheckpointConfig& checkpoint) {
  if (checkpoint.keep_best) return *checkpoint.keep_best;
  return evaluate.early_stopping ? evaluate.early_stopping->rule : MetricRule{};
}

}  // namespace

EvaluationTally::EvaluationTally(const EvaluateConfig& evaluate, const CheckpointConfig& checkpoint)
    : rule_(RuleOf(evaluate, checkpoint)) {}

void EvaluationTally::Add(const Evaluation& evaluation, std::optional<absl::Duration> took) {
  std::erase_if(scores_, [&](const ScoreRecord& score) { return score.step >= evaluation.step; });
  ScoreRecord& score =
      scores_.emplace_back(ScoreRecord{.step = evaluation.step, .epoch = evaluation.epoch, .metrics = evaluation.metrics, .seconds = {}});
  if (took) score.seconds = absl::ToDoubleSeconds(*took);
}

EvaluatorRecord EvaluationTally::Record(int index) const {
  EvaluatorRecord record{
      .index = index, .evaluations = static_cast<int64_t>(scores_.size()), .metric = rule_.metric, .best = {}, .last = {}};
  MetricTracker tracker(rule_, 0);
  for (const ScoreRecord& score : scores_) {
    const auto value = score.metrics.find(rule_.metric);
    if (value != score.metrics.end() && tracker.Take(score.step, value->second)) record.best = score;
  }
  if (!scores_.empty()) record.last = scores_.back();
  return record;
}

}  // namespace trainyard::engine
