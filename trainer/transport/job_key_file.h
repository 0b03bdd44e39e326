// The job's key as its file holds it now.
#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/transport/job_key.h"

namespace trainyard::engine {

// Thread-safe. A ConfigMap that was lost and made anew can bring another key, which the kubelet
// puts into the files of running replicas. Without a second look they could not talk with replicas
// that start later. The file is read at most once a second; where it cannot be read the key before
// stays.
class JobKeyFile {
 public:
  // `key` is what the file held when the replica started.
  JobKeyFile(const JobKey& key, std::string path, Clock& clock = RealClock());

  JobKey Now();

 private:
  const std::string path_;
  Clock& clock_;
  absl::Mutex mutex_;
  JobKey key_ ABSL_GUARDED_BY(mutex_);
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::engine
