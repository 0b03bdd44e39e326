// Asks jobs' own servers from threads of its own, the chiefs of running jobs for their progress and
// what serves checkpoints for the version: a reconcile never waits for a container.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/api/progress_json.h"
#include "operator/api/training_job.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/progress/poll_schedule.h"
#include "operator/progress/progress_fetch.h"

namespace trainyard::control {

struct ProgressPollerOptions {
  absl::Duration interval = absl::Seconds(10);
  absl::Duration max_interval = absl::Minutes(5);  // of a chief that hangs: each time doubles its wait
  int parallel = 16;                               // questions under way; of one namespace half of them. 0: none
};

// The state of one server.
template <typename Answer>
struct PollReport {
  std::optional<Answer> latest;  // its latest sensible answer
  std::string problem;           // why the last question had none; empty: it had, or none has ended yet
};

// Thread-safe. Answer is Progress or ServedVersion; "chief" stands for the server of either. A new
// chief is asked after 1, 2, 4 … seconds up to the interval, then at most once in each. A chief
// that is slow or hostile costs others nothing but its share of the questions under way
// (PollSchedule), and is asked ever less. A refusal costs nothing: a chief may load its data for
// long before it has something to tell.
template <typename Answer>
class Poller {
 public:
  // `changed` is called with the job's key when its answer is new; from the poller's threads.
  Poller(Clock& clock, ProgressFetch fetch, ProgressPollerOptions options, std::function<void(const std::string& key)> changed);
  ~Poller();

  void Start();
  // Ends the questions under way.
  void Stop();

  // Watches the chief of job `key` ("namespace/name"); again: where it is now. A pod of another uid
  // is another chief, of which nothing is known.
  void Watch(const std::string& key, const ProgressTarget& target);
  // The chief has news soon, as at its start: its waits start over.
  void Hurry(const std::string& key);
  void Forget(const std::string& key);
  PollReport<Answer> Report(const std::string& key) const;

 private:
  struct Chief {
    ProgressTarget target;
    absl::Duration wait;  // after the next answer
    int hangs = 0;        // in a row, of an old chief
    PollReport<Answer> report;
  };
  void Work(const std::stop_token& stop);
  void Ask(const std::string& key, const ProgressTarget& target, const std::stop_token& stop);
  absl::Duration WaitAfter(Chief& chief, bool hung) const;

  Clock& clock_;
  const ProgressFetch fetch_;
  const ProgressPollerOptions options_;
  const std::function<void(const std::string& key)> changed_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::map<std::string, Chief> chiefs_ ABSL_GUARDED_BY(mutex_);
  PollSchedule schedule_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

extern template class Poller<Progress>;
extern template class Poller<ServedVersion>;

using ProgressPoller = Poller<Progress>;
using VersionPoller = Poller<ServedVersion>;

}  // namespace trainyard::control
