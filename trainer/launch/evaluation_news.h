// The evaluations of a running job, each told once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "trainer/checkpoint/evaluation_log.h"

namespace trainyard::engine {

// /progress has the newest evaluations only. A job may make more of them between two looks: then
// the log on the disk has the others. Not thread-safe.
class EvaluationNews {
 public:
  using Log = std::vector<LoggedEvaluation>;

  // `earlier`: the log as the launch found it, whose evaluations are those of earlier runs.
  explicit EvaluationNews(Log earlier) : earlier_(std::move(earlier)) {}

  // Those of `newest` (steps rise) that were not told yet, with those of the log that came between.
  // `read_log` is asked where `newest` may lack some, and always at the `end` of the job.
  std::vector<Evaluation> Take(std::span<const Evaluation> newest, bool end, const std::function<Log()>& read_log);

 private:
  const Log earlier_;
  int64_t told_ = -1;  // its step
};

}  // namespace trainyard::engine
