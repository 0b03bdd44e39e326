#include "trainer/train/evaluation_watch.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {

EvaluationWatch::~EvaluationWatch() {
  if (shown_) options_.told("");
}

absl::Status EvaluationWatch::Done(int64_t examples) {
  done_ += examples;
  if (done_ >= options_.examples) return absl::OkStatus();
  if (options_.stop && options_.stop()) {
    return absl::CancelledError(
        fmt::format("{}: stopped while it evaluates, after {} of {} examples", options_.who, done_, options_.examples));
  }
  if (notice_.Due(clock_.Now())) {
    const double percent = 100.0 * static_cast<double>(done_) / static_cast<double>(options_.examples);
    options_.told(fmt::format("{} evaluates: {:.0f}% of {} examples", options_.who, percent, options_.examples));
    shown_ = true;
  }
  return absl::OkStatus();
}

ModelRunner::BatchSeen EvaluationWatch::Seen(ModelRunner::BatchSeen then) {
  return [this, then = std::move(then)](const Batch& batch, const Executor& executor) -> absl::Status {
    if (then) TY_RETURN_IF_ERROR(then(batch, executor));
    return Done(batch.examples);
  };
}

}  // namespace trainyard::engine
