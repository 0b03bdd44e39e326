// TakenNames: names of children that a create found taken by a foreign object, which no cache has.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/children/child_ref.h"

namespace trainyard::control {

// Thread-safe. A name counts as taken for `retry_after`; then it is tried again.
class TakenNames {
 public:
  TakenNames(Clock& clock, absl::Duration retry_after) : clock_(clock), retry_after_(retry_after) {}

  void Note(const std::string& job_key, const ChildRef& child, std::string holder);
  // Kind and name → holder.
  std::map<std::pair<ChildKind, std::string>, std::string> Known(const std::string& job_key);
  void Forget(const std::string& job_key);

 private:
  struct Taken {
    std::string holder;
    absl::Duration until;  // on the monotonic clock
  };

  Clock& clock_;
  const absl::Duration retry_after_;
  Mutex mutex_;
  std::unordered_map<std::string, std::map<std::pair<ChildKind, std::string>, Taken>> jobs_ ABSL_GUARDED_BY(mutex_);  // by job key
};

}  // namespace trainyard::control
