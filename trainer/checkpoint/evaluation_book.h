// The chief's account of the evaluations of its job, its own or those of the job's evaluator. It
// knows the best evaluation, and whether the training should end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/checkpoint/evaluation_judge.h"
#include "trainer/checkpoint/evaluation_log.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

// Used from the step loop's thread.
class EvaluationBook {
 public:
  // `dir` is the checkpoints' folder. Evaluations of steps up to `step`, where the training goes
  // on, are taken again from the log. `clock` must outlive the book.
  static absl::StatusOr<std::unique_ptr<EvaluationBook>> Open(const TrainingConfig& config, std::string dir, int64_t step, Clock& clock);

  const EvaluationJudge& judge() const { return judge_; }

  // Takes the chief's own evaluation and logs it (with an evaluator the log is the evaluator's to
  // write). One of a step that was taken before changes nothing and is never the best.
  absl::StatusOr<EvaluationJudge::Verdict> Add(const Evaluation& evaluation);

  // With an evaluator: this run has written a checkpoint, whose evaluation is to be taken when it
  // comes.
  void Expect(int64_t step, std::string checkpoint) { expected_.insert_or_assign(step, std::move(checkpoint)); }
  // With an evaluator: takes what it has evaluated since the last call. Looks at the log at most
  // once a second, unless `at_once`.
  absl::StatusOr<std::vector<Evaluation>> TakeNew(bool at_once = false);

  // The training was rolled back to `step`: later evaluations come again.
  absl::Status ForgetAfter(int64_t step);

  // The evaluation of this step's parameters, or null.
  const Evaluation* Find(int64_t step) const;

 private:
  EvaluationBook(const TrainingConfig& config, std::string dir, EvaluationLog log, Clock& clock)
      : logs_(!config.evaluator),
        fresh_judge_(config.evaluate, config.checkpoint),
        judge_(fresh_judge_),
        dir_(std::move(dir)),
        log_(std::move(log)),
        clock_(clock) {}
  absl::StatusOr<EvaluationJudge::Verdict> Take(const Evaluation& evaluation);

  const bool logs_;
  const EvaluationJudge fresh_judge_;
  EvaluationJudge judge_;
  const std::string dir_;
  EvaluationLog log_;
  Clock& clock_;
  std::vector<Evaluation> taken_;            // steps rise
  std::map<int64_t, std::string> expected_;  // digests by step
  absl::Time next_look_ = absl::InfinitePast();
};

}  // namespace trainyard::engine
