#include "trainer/launch/evaluation_news.h"

#include <algorithm>
#include <map>

#include "trainer/report/progress.h"

namespace trainyard::engine {

std::vector<Evaluation> EvaluationNews::Take(std::span<const Evaluation> newest, bool end, const std::function<Log()>& read_log) {
  std::map<int64_t, Evaluation> by_step;
  if (end || (newest.size() >= Progress::kMostEvaluations && newest.front().step > told_)) {
    for (LoggedEvaluation& logged : read_log()) {
      if (std::ranges::find(earlier_, logged) == earlier_.end()) by_step[logged.evaluation.step] = std::move(logged.evaluation);
    }
  }
  for (const Evaluation& evaluation : newest) by_step[evaluation.step] = evaluation;
  std::vector<Evaluation> news;
  for (auto& [step, evaluation] : by_step) {
    if (step > told_) news.push_back(std::move(evaluation));
  }
  if (!news.empty()) told_ = news.back().step;
  return news;
}

}  // namespace trainyard::engine
