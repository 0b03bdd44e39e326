// Metrics about jobs: their number in each phase, what holds them, their ends, and the time that
// they take to start.
// Progress is shown for a bounded number of jobs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "operator/api/training_job.h"
#include "operator/base/mutex.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
template <typename T>
class Family;
}  // namespace prometheus

namespace trainyard::control {

// Thread-safe. The registry must outlive it.
class JobMetrics {
 public:
  explicit JobMetrics(prometheus::Registry& registry, size_t max_progress_jobs = 200);

  // The status of the job `key` is now `status`; `before` was written before it (counters follow
  // the difference).
  void Wrote(const std::string& key, const TrainingJob& job, const TrainingJobStatus& before, const TrainingJobStatus& status);
  // The job was seen with its current status: keeps the gauges true after a restart of the
  // operator.
  void Seen(const std::string& key, const TrainingJob& job, const TrainingJobStatus& status);
  void Gone(const std::string& key);

 private:
  // A number of a job's progress and its gauges, of which each job has one.
  struct ProgressFamily {
    prometheus::Family<prometheus::Gauge>* family;
    std::optional<double> (*value)(const Progress& progress);
  };
  struct Entry {
    std::optional<JobPhase> phase;
    std::string stalled;                       // its reason; empty: nothing holds the job
    std::vector<prometheus::Gauge*> progress;  // one for each family, null where not reported; empty: not shown
  };
  void Show(const std::string& key, const TrainingJob& job, const TrainingJobStatus& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the job from one gauge of the family to another, by label; an empty value has none.
  void Move(prometheus::Family<prometheus::Gauge>& family, const char* label, const std::string& from, const std::string& to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hide(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_progress_jobs_;
  prometheus::Family<prometheus::Gauge>& phases_;
  prometheus::Family<prometheus::Gauge>& stalled_;
  prometheus::Counter& created_;
  prometheus::Counter& succeeded_;
  prometheus::Counter& failed_;
  prometheus::Counter& restarts_;
  prometheus::Counter& disruptions_;
  prometheus::Histogram& time_to_running_;
  const std::vector<ProgressFamily> progress_;
  Mutex mutex_;
  std::map<std::string, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  size_t progress_jobs_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace trainyard::control
