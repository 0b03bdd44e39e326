// An evaluation that lasts: people see how far it is, and it ends when its process is to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "trainer/base/clock.h"
#include "trainer/base/long_wait.h"
#include "trainer/base/wait_notice.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {

struct EvaluationWatchOptions {
  std::string who;             // "worker-0"
  int64_t examples = 0;        // of all batches
  std::function<bool()> stop;  // may be empty: it always goes on
  WaitTold told;               // gets "worker-0 evaluates: 34% of 5000 examples" after kShownWait, and then as often; "" at the end
};

// Of one evaluation; not thread-safe. `clock` must outlive it.
class EvaluationWatch {
 public:
  EvaluationWatch(EvaluationWatchOptions options, Clock& clock)
      : options_(std::move(options)), clock_(clock), notice_(clock.Now(), kShownWait) {}
  ~EvaluationWatch();
  EvaluationWatch(const EvaluationWatch&) = delete;
  EvaluationWatch& operator=(const EvaluationWatch&) = delete;

  // A batch is done. Cancelled: the process is to stop.
  absl::Status Done(int64_t examples);
  // For ModelRunner::Evaluate: Done, then `then` where that is not empty. This object must outlive
  // it.
  ModelRunner::BatchSeen Seen(ModelRunner::BatchSeen then);

 private:
  const EvaluationWatchOptions options_;
  Clock& clock_;
  WaitNotice notice_;
  int64_t done_ = 0;
  bool shown_ = false;
};

}  // namespace trainyard::engine
