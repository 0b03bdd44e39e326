// SeenHostLists: what the last look at each job found out about its host lists.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "operator/base/mutex.h"
#include "operator/plan/host_lists.h"

namespace trainyard::control {

// Thread-safe.
class SeenHostLists {
 public:
  std::optional<HostListsSeen> Known(const std::string& job_key) {
    MutexLock lock(mutex_);
    const auto it = jobs_.find(job_key);
    return it == jobs_.end() ? std::nullopt : std::optional(it->second);
  }
  void Note(const std::string& job_key, HostListsSeen seen) {
    MutexLock lock(mutex_);
    jobs_[job_key] = std::move(seen);
  }
  void Forget(const std::string& job_key) {
    MutexLock lock(mutex_);
    jobs_.erase(job_key);
  }

 private:
  Mutex mutex_;
  std::unordered_map<std::string, HostListsSeen> jobs_ ABSL_GUARDED_BY(mutex_);  // by job key
};

}  // namespace trainyard::control
