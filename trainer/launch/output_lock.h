// One launch at a time in an output folder.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// Holds <dir>/.lock (flock) until it is destroyed, or until the process ends however it ends: the file that stays behind locks nothing.
// Replicas do not inherit it.
class OutputLock {
 public:
  // Makes the folder if it is absent. FailedPrecondition: another process holds the lock; names it by its process id.
  static absl::StatusOr<OutputLock> Take(const std::string& dir);
  ~OutputLock();
  OutputLock(OutputLock&& other) noexcept;
  OutputLock& operator=(OutputLock&&) = delete;

 private:
  explicit OutputLock(int fd) : fd_(fd) {}

  int fd_;  // -1: moved from
};

}  // namespace trainyard::engine
