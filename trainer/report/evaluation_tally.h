// The evaluator's part of report.json: how many evaluations the training has had, the best one and
// the last.
#pragma once

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "trainer/checkpoint/evaluation_judge.h"
#include "trainer/job/training_config.h"
#include "trainer/report/replica_report.h"

namespace trainyard::engine {

// Not thread-safe.
class EvaluationTally {
 public:
  // The best one is that of checkpoint.keepBest, else of earlyStopping, else that of the least
  // loss.
  EvaluationTally(const EvaluateConfig& evaluate, const CheckpointConfig& checkpoint);

  // `took`: nothing where that is not known. Evaluations of this step and later ones belong to a
  // line of training that was given up, and go.
  void Add(const Evaluation& evaluation, std::optional<absl::Duration> took);

  EvaluatorRecord Record(int index) const;

 private:
  const MetricRule rule_;
  std::vector<ScoreRecord> scores_;  // steps rise
};

}  // namespace trainyard::engine
