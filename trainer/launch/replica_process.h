// One replica as a local child process: started with an environment and a log file, watched through
// a pidfd, reaped exactly once.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// How a process ended, as waitpid(2) tells it: exited with `code`, or killed by `signal` (code is
// then 128 + signal, as a shell says it).
struct ExitStatus {
  int code = 0;
  int signal = 0;

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// "exit code 3", "signal 9 (Killed)"
std::string Describe(const ExitStatus& status);

struct ProcessOptions {
  std::vector<std::string> argv;                   // argv[0] is a path, not searched
  std::map<std::string, std::string> environment;  // added to this process's own; wins over it
  std::string log_path;                            // stdout and stderr are appended here; its folder is made
};

// Not thread-safe. The child dies with its parent (PR_SET_PDEATHSIG), so that a killed launcher
// leaves nothing behind. The thread that starts it must live as long as the process should.
class ReplicaProcess {
 public:
  // An error names the program or the log file, and errno's text.
  static absl::StatusOr<ReplicaProcess> Start(const ProcessOptions& options);

  ReplicaProcess(ReplicaProcess&& other) noexcept;
  ReplicaProcess& operator=(ReplicaProcess&& other) noexcept;
  // Kills and reaps a child that still runs.
  ~ReplicaProcess();

  pid_t pid() const { return pid_; }
  // Readable (poll(2)) once the process has ended. -1 after Reap.
  int pidfd() const { return pidfd_; }
  // No effect after Reap.
  void Signal(int signal) const;
  // Waits for the end and returns it. May be called once.
  ExitStatus Reap();

 private:
  ReplicaProcess(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}

  pid_t pid_ = -1;
  int pidfd_ = -1;
};

}  // namespace trainyard::engine
