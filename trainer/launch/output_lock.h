// One launch, and one chief, at a time in an output folder.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "trainer/base/owned_fd.h"

namespace trainyard::engine {

enum class LockHolder : uint8_t { kLaunch, kChief };

// Holds <dir>/.lock or <dir>/.chief.lock (flock) until it is destroyed, or until the process ends
// however it ends: the file that stays behind locks nothing. Replicas do not inherit it.
class OutputLock {
 public:
  // Makes the folder if it is absent. FailedPrecondition: another process holds the lock; names it
  // by its process id.
  static absl::StatusOr<OutputLock> Take(const std::string& dir, LockHolder holder = LockHolder::kLaunch);

 private:
  explicit OutputLock(OwnedFd file) : file_(std::move(file)) {}

  OwnedFd file_;
};

}  // namespace trainyard::engine
