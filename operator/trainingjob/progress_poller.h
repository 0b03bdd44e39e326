// Asks the chiefs of running jobs for their progress, from threads of its own: a reconcile never waits for a container.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/api/training_job.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Where a job's chief answers.
struct ProgressTarget {
  std::string ns;
  std::string pod;
  std::string ip;
  int port = 0;  // of HTTP
  friend bool operator==(const ProgressTarget&, const ProgressTarget&) = default;
};

// GETs /progress of a target; at most `kMaxProgressBytes` and two seconds. Thread-safe.
using ProgressFetch = std::function<absl::StatusOr<std::string>(const ProgressTarget& target)>;

struct ProgressPollerOptions {
  absl::Duration interval = absl::Seconds(10);
  absl::Duration max_interval = absl::Minutes(5);  // of a chief that does not answer: each failure doubles its wait
  int threads = 2;
};

// Thread-safe. Each watched chief is asked at most once in an interval.
class ProgressPoller {
 public:
  // `changed` is called with the job's key when its progress is new; from the poller's threads.
  ProgressPoller(Clock& clock, ProgressFetch fetch, ProgressPollerOptions options, std::function<void(const std::string& key)> changed);
  ~ProgressPoller();

  void Start();
  void Stop();

  // Watches the chief of job `key` (again: where it is now).
  void Watch(const std::string& key, const ProgressTarget& target);
  void Forget(const std::string& key);
  // The chief's latest sensible answer since it is watched.
  std::optional<Progress> Latest(const std::string& key) const;

 private:
  struct Chief {
    ProgressTarget target;
    absl::Duration due;
    int failures = 0;
    bool asking = false;
    std::optional<Progress> latest;
  };
  void Work(std::stop_token stop);
  // The chief to be asked now, or how long nobody is due.
  std::optional<std::string> NextDue(absl::Duration& wait_until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ask(const std::string& key, const ProgressTarget& target);

  Clock& clock_;
  const ProgressFetch fetch_;
  const ProgressPollerOptions options_;
  const std::function<void(const std::string& key)> changed_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::map<std::string, Chief> chiefs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace trainyard::control
