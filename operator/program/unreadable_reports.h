// UnreadableReports: tells of objects that cannot be read, once this operator leads.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "operator/api/resource.h"
#include "operator/base/mutex.h"
#include "operator/controller/event_recorder.h"
#include "operator/kube/unreadable.h"

namespace trainyard::control {

// Only the operator that leads may tell. A process lists all objects before it leads, and a standby
// long before. Until Lead the newest report of each object is held, of at most kMost objects.
// Thread-safe.
class UnreadableReports {
 public:
  static constexpr size_t kMost = 256;
  using Tell = std::function<void(const ObjectReference& about, const std::string& note)>;

  // `tell` must not wait.
  explicit UnreadableReports(Tell tell) : tell_(std::move(tell)) {}

  // An object without a name is left to the log: nobody could look at it.
  void Add(const Resource& resource, const Unreadable& object);
  // Tells what is held; from now on reports are told at once.
  void Lead();

 private:
  struct Report {
    ObjectReference about;
    std::string note;
  };

  const Tell tell_;
  Mutex mutex_;
  bool leads_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Report> held_ ABSL_GUARDED_BY(mutex_);  // by kind, namespace and name
};

}  // namespace trainyard::control
