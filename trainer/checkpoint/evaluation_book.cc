#include "trainer/checkpoint/evaluation_book.h"

#include <algorithm>
#include <utility>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kLookPeriod = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<EvaluationBook>> EvaluationBook::Open(const TrainingConfig& config, std::string dir, int64_t step,
                                                                     Clock& clock) {
  TY_ASSIGN_OR_RETURN(EvaluationLog log, EvaluationLog::Open(dir));
  log.ForgetAfter(step);
  std::unique_ptr<EvaluationBook> book(new EvaluationBook(config, std::move(dir), std::move(log), clock));
  for (const LoggedEvaluation& logged : book->log_.evaluations()) TY_RETURN_IF_ERROR(book->Take(logged.evaluation).status());
  return book;
}

absl::StatusOr<EvaluationJudge::Verdict> EvaluationBook::Take(const Evaluation& evaluation) {
  TY_ASSIGN_OR_RETURN(const EvaluationJudge::Verdict verdict, judge_.Take(evaluation));
  taken_.push_back(evaluation);
  return verdict;
}

absl::StatusOr<EvaluationJudge::Verdict> EvaluationBook::Add(const Evaluation& evaluation) {
  if (!taken_.empty() && evaluation.step <= taken_.back().step) return EvaluationJudge::Verdict{.stop = judge_.stopped()};
  TY_ASSIGN_OR_RETURN(const EvaluationJudge::Verdict verdict, Take(evaluation));
  if (logs_) TY_RETURN_IF_ERROR(log_.Add({.evaluation = evaluation, .checkpoint = {}}));
  return verdict;
}

absl::StatusOr<std::vector<Evaluation>> EvaluationBook::TakeNew(bool at_once) {
  std::vector<Evaluation> fresh;
  const absl::Time now = clock_.Now();
  if (!at_once && now < next_look_) return fresh;
  next_look_ = now + kLookPeriod;
  TY_ASSIGN_OR_RETURN(const EvaluationLog log, EvaluationLog::Open(dir_));
  for (const LoggedEvaluation& logged : log.evaluations()) {
    const Evaluation& evaluation = logged.evaluation;
    if (!taken_.empty() && evaluation.step <= taken_.back().step) continue;
    // Of the same step there may be one of a line of training that was given up.
    const auto expected = expected_.find(evaluation.step);
    if (expected == expected_.end() || expected->second != logged.checkpoint) continue;
    TY_RETURN_IF_ERROR(Take(evaluation).status());
    fresh.push_back(evaluation);
  }
  if (!taken_.empty()) expected_.erase(expected_.begin(), expected_.upper_bound(taken_.back().step));
  return fresh;
}

absl::Status EvaluationBook::ForgetAfter(int64_t step) {
  log_.ForgetAfter(step);
  expected_.erase(expected_.upper_bound(step), expected_.end());
  judge_ = fresh_judge_;
  const std::vector<Evaluation> taken = std::exchange(taken_, {});
  for (const Evaluation& evaluation : taken) {
    if (evaluation.step <= step) TY_RETURN_IF_ERROR(Take(evaluation).status());
  }
  return absl::OkStatus();
}

const Evaluation* EvaluationBook::Find(int64_t step) const {
  const auto found = std::ranges::find(taken_, step, &Evaluation::step);
  return found == taken_.end() ? nullptr : &*found;
}

}  // namespace trainyard::engine
