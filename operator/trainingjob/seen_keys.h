// The keys of jobs as their ConfigMaps last held them. A ConfigMap that was deleted by hand comes
// back with the key that the replicas hold in memory.
#pragma once

#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. Bounded: it forgets all when it holds kMost, and learns them again from the
// ConfigMaps.
class SeenKeys {
 public:
  // Remembers `key` unless it is empty. Returns the job's key, "" where none was seen.
  std::string Known(const std::string& uid, const std::string& key) {
    MutexLock lock(mutex_);
    if (key.empty()) return keys_.contains(uid) ? keys_.at(uid) : "";
    if (keys_.size() >= kMost) keys_.clear();
    return keys_[uid] = key;
  }

 private:
  static constexpr size_t kMost = 10'000;
  Mutex mutex_;
  std::unordered_map<std::string, std::string> keys_ ABSL_GUARDED_BY(mutex_);  // by the job's uid
};

}  // namespace trainyard::control
