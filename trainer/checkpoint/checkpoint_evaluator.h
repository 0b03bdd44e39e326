// The work of the evaluator role: evaluates a job's checkpoints as they come, and keeps the best.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/evaluation_log.h"
#include "trainer/job/training_config.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Not thread-safe. Everything it knows is in the checkpoints' folder: a restarted evaluator goes on
// where the last one was.
class CheckpointEvaluator {
 public:
  using EvaluateParameters = std::function<absl::StatusOr<std::map<std::string, double>>(const ParameterSet& parameters)>;

  // `vocabulary`: Vocabulary::Sha256Hex() of the text to evaluate on, "" where the model reads
  // none.
  CheckpointEvaluator(const TrainingConfig& config, CheckpointStore store, ParameterSet parameters, std::string vocabulary,
                      EvaluateParameters evaluate)
      : config_(config),
        store_(std::move(store)),
        parameters_(std::move(parameters)),
        vocabulary_(std::move(vocabulary)),
        evaluate_(std::move(evaluate)) {}

  // Evaluates the oldest checkpoint that was not evaluated: logs it, and keeps it if it is the
  // best. Nothing: there is none now. A checkpoint that is torn, or that rotation took away
  // meanwhile, is passed over. FailedPrecondition: it is of another model or vocabulary.
  absl::StatusOr<std::optional<Evaluation>> Next();

  // No checkpoint comes any more, as the chief says. A mark that was there from the first call on
  // may be an earlier run's, whose training is about to go on. So it counts only from `patience` on
  // after that first call.
  absl::StatusOr<bool> Finished(absl::Time now, absl::Duration patience);

 private:
  // In the order of steps; nothing where all are evaluated or cannot be.
  absl::StatusOr<std::optional<Checkpoint>> FindNew(const EvaluationLog& log);
  absl::Status KeepBest(const Checkpoint& checkpoint, const EvaluationJudge& judge);

  const TrainingConfig& config_;
  CheckpointStore store_;
  ParameterSet parameters_;
  const std::string vocabulary_;
  const EvaluateParameters evaluate_;
  std::set<std::pair<int64_t, std::string>> unreadable_;  // step and digest
  std::optional<absl::Time> first_look_;
  bool old_mark_ = false;
};

}  // namespace trainyard::engine
