// JobFeed: all jobs as JSON, with their curves, and streams of what changes in them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/cache/store.h"
#include "operator/controller/page_handler.h"
#include "operator/page/loss_curve.h"

namespace trainyard::control {

// Thread-safe. The stores must outlive it, and it must outlive its sources.
//
// It reads the stores and nothing else: they show the operator's own writes too, of which informers
// tell no handler. A stream has no queue. It remembers a version of the list, and gets what changed
// since then: all jobs where that is more than one look ago.
class JobFeed {
 public:
  JobFeed(Clock& clock, const Lister<TrainingJob>& jobs, const Lister<Pod>& pods) : clock_(clock), jobs_(jobs), pods_(pods) {}

  // Takes in what is new in the stores. To be called about once a second: a job that has not
  // changed costs the comparison of a pointer.
  void Look();

  // {"now", "jobs": [SummaryOf…]} as of the last Look, in no order.
  std::shared_ptr<const std::string> Jobs();
  // DetailOf the job now; nothing when there is none.
  std::optional<std::string> Job(std::string_view key);

  // Events: "jobs" with Jobs(), then "changed" with {"jobs": [SummaryOf…], "gone": [uid…]}, or
  // "jobs" again.
  std::unique_ptr<EventSource> WatchJobs();
  // Events: "clock" with the time now, then "job" with Job(key) whenever it differs, or "gone".
  std::unique_ptr<EventSource> WatchJob(std::string key);

 private:
  class ListSource;
  class JobSource;
  struct Entry {
    std::shared_ptr<const TrainingJob> job;
    LossCurve curve;
    std::string text;   // of SummaryOf; empty: not made since the last change
    uint64_t seen = 0;  // the look that saw it
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  static const std::string& TextOf(Entry& entry);
  std::string AllJobs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What a stream at `version` is to be sent; null: nothing. Sets `version` to the newest.
  std::shared_ptr<const std::string> Since(uint64_t& version);

  Clock& clock_;
  const Lister<TrainingJob>& jobs_;
  const Lister<Pod>& pods_;
  Mutex mutex_;
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_ ABSL_GUARDED_BY(mutex_);  // by uid
  uint64_t looks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 1;
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;  // of the list
  // Shared by all readers of this version; null: nobody has asked yet.
  std::shared_ptr<const std::string> list_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const std::string> list_event_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const std::string> change_event_ ABSL_GUARDED_BY(mutex_);  // from the version before
};

}  // namespace trainyard::control
