// Processes that a benchmark starts beside its own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::engine {

// They end with this object, and with their parent. Not thread-safe.
class ChildProcesses {
 public:
  ChildProcesses() = default;
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  // Runs `work` in a new process, by fork(2): this process must have no threads yet. The child's
  // exit code tells whether the status was OK. ResourceExhausted: there can be no more processes.
  absl::StatusOr<pid_t> Start(const std::function<absl::Status()>& work);
  // Waits for all. Internal: one has failed.
  absl::Status Join();

 private:
  std::vector<pid_t> running_;
};

}  // namespace trainyard::engine
