// The decisions after an evaluation: is this checkpoint the best one so far, should the training
// end? Pure: the same evaluations in the same order give the same decisions. So a resumed run gets
// its state by taking the earlier evaluations again (evaluation_log.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

// One evaluation of the parameters as they were after `step`.
struct Evaluation {
  int64_t step = 0;
  int64_t epoch = 0;
  std::map<std::string, double> metrics;  // "loss", "accuracy" or "perplexity"

  friend bool operator==(const Evaluation&, const Evaluation&) = default;
};

// Follows one metric.
class MetricTracker {
 public:
  // `min_delta`: a change counts as an improvement only when it is larger.
  MetricTracker(const MetricRule& rule, double min_delta);

  // True when `value` is better than every one before by more than min_delta. NaN never is; the
  // first number always is.
  bool Take(int64_t step, double value);

  struct Best {
    int64_t step = 0;
    double value = 0;
    friend bool operator==(const Best&, const Best&) = default;
  };
  const std::optional<Best>& best() const { return best_; }
  // Evaluations since the last improvement.
  int64_t waited() const { return waited_; }

 private:
  double sign_;  // 1: more is better
  double min_delta_;
  std::optional<Best> best_;
  int64_t waited_ = 0;
};

// Not thread-safe.
class EvaluationJudge {
 public:
  // keep_best: what checkpoint.keepBest says, or earlyStopping's metric where only restoreBest asks
  // for a best checkpoint.
  EvaluationJudge(const EvaluateConfig& evaluate, const CheckpointConfig& checkpoint);

  struct Verdict {
    bool best = false;  // keep this one as the best checkpoint
    bool stop = false;  // end the training
  };
  // InvalidArgument: the evaluation has no such metric; the message says which it has.
  absl::StatusOr<Verdict> Take(const Evaluation& evaluation);

  bool keeps_best() const { return best_.has_value(); }
  bool restores_best() const { return stopping_ && stopping_->config.restore_best; }
  // Nothing before the first number of a metric that is kept.
  std::optional<MetricTracker::Best> best() const { return best_ ? best_->tracker.best() : std::nullopt; }
  const std::string& best_metric() const { return best_->rule.metric; }  // where keeps_best()

  // The entries of the best checkpoint's manifest: {"bestMetric", "bestValue"}; where best().
  std::map<std::string, std::string> BestState() const;
  // Whether the value in such a manifest is better than best(), by the same metric.
  bool IsBetter(const std::map<std::string, std::string>& state) const;

  // For good: an evaluation that comes later, as of the last parameters, takes nothing back.
  bool stopped() const;
  // "accuracy has not improved on 0.97 (step 400) for 3 evaluations (earlyStopping.patience 3)";
  // where stopped().
  std::string StopReason() const;

 private:
  struct Kept {
    MetricRule rule;
    MetricTracker tracker;
  };
  struct Stopping {
    EarlyStoppingConfig config;
    MetricTracker tracker;
  };
  std::optional<Kept> best_;
  std::optional<Stopping> stopping_;
};

// kAuto resolved: accuracy is better when it is more, loss and perplexity when they are less.
bool MoreIsBetter(const MetricRule& rule);

}  // namespace trainyard::engine
