#include "trainer/checkpoint/evaluation_judge.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

std::optional<MetricRule> KeptRule(const EvaluateConfig& evaluate, const CheckpointConfig& checkpoint) {
  if (checkpoint.keep_best) return checkpoint.keep_best;
  if (evaluate.early_stopping && evaluate.early_stopping->restore_best) return evaluate.early_stopping->rule;
  return std::nullopt;
}

absl::StatusOr<double> ValueOf(const Evaluation& evaluation, const std::string& metric) {
  const auto found = evaluation.metrics.find(metric);
  if (found != evaluation.metrics.end()) return found->second;
  std::string known;
  for (const auto& [name, value] : evaluation.metrics) known += (known.empty() ? "" : ", ") + name;
  return absl::InvalidArgumentError(
      fmt::format("the evaluation of step {} has no metric '{}', it has {}; change the metric of "
                  "evaluate.earlyStopping or checkpoint.keepBest",
                  evaluation.step, metric, known.empty() ? "none" : known));
}

}  // namespace

bool MoreIsBetter(const MetricRule& rule) {
  return rule.mode == MetricMode::kMax || (rule.mode == MetricMode::kAuto && rule.metric == "accuracy");
}

MetricTracker::MetricTracker(const MetricRule& rule, double min_delta) : sign_(MoreIsBetter(rule) ? 1 : -1), min_delta_(min_delta) {}

bool MetricTracker::Take(int64_t step, double value) {
  const bool better = !std::isnan(value) && (!best_ || sign_ * (value - best_->value) > min_delta_);
  if (!better) {
    ++waited_;
    return false;
  }
  best_ = Best{.step = step, .value = value};
  waited_ = 0;
  return true;
}

EvaluationJudge::EvaluationJudge(const EvaluateConfig& evaluate, const CheckpointConfig& checkpoint) {
  if (const std::optional<MetricRule> rule = KeptRule(evaluate, checkpoint)) {
    best_.emplace(Kept{*rule, MetricTracker(*rule, 0)});
  }
  if (evaluate.early_stopping) {
    const EarlyStoppingConfig& config = *evaluate.early_stopping;
    stopping_.emplace(Stopping{config, MetricTracker(config.rule, config.min_delta)});
  }
}

absl::StatusOr<EvaluationJudge::Verdict> EvaluationJudge::Take(const Evaluation& evaluation) {
  Verdict verdict;
  if (best_) {
    TY_ASSIGN_OR_RETURN(const double value, ValueOf(evaluation, best_->rule.metric));
    verdict.best = best_->tracker.Take(evaluation.step, value);
  }
  if (stopping_) {
    TY_ASSIGN_OR_RETURN(const double value, ValueOf(evaluation, stopping_->config.rule.metric));
    if (!stopped()) stopping_->tracker.Take(evaluation.step, value);
    verdict.stop = stopped();
  }
  return verdict;
}

std::map<std::string, std::string> EvaluationJudge::BestState() const {
  TY_CHECK(best().has_value());
  return {{"bestMetric", best_->rule.metric}, {"bestValue", fmt::format("{}", best()->value)}};
}

bool EvaluationJudge::IsBetter(const std::map<std::string, std::string>& state) const {
  const auto metric = state.find("bestMetric");
  const auto text = state.find("bestValue");
  if (!best() || metric == state.end() || metric->second != best_->rule.metric || text == state.end()) return false;
  double value = 0;
  const char* const end = text->second.data() + text->second.size();
  if (std::from_chars(text->second.data(), end, value).ptr != end) return false;
  MetricTracker tracker(best_->rule, 0);
  tracker.Take(0, best()->value);
  return tracker.Take(1, value);
}

bool EvaluationJudge::stopped() const {
  if (!stopping_) return false;
  const int64_t waited = stopping_->tracker.waited();
  return waited > 0 && waited >= stopping_->config.patience;
}

std::string EvaluationJudge::StopReason() const {
  TY_CHECK(stopped());
  const EarlyStoppingConfig& config = stopping_->config;
  const std::string waited = fmt::format("for {} evaluation{} (earlyStopping.patience {})", stopping_->tracker.waited(),
                                         stopping_->tracker.waited() == 1 ? "" : "s", config.patience);
  const std::optional<MetricTracker::Best>& best = stopping_->tracker.best();
  if (!best) return fmt::format("{} was not a number {}", config.rule.metric, waited);
  const std::string delta = config.min_delta > 0 ? fmt::format(" by more than {:g}", config.min_delta) : "";
  return fmt::format("{} has not improved on {:.6g} (step {}){} {}", config.rule.metric, best->value, best->step, delta, waited);
}

}  // namespace trainyard::engine
