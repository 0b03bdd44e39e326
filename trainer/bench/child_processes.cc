#include "trainer/bench/child_processes.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace trainyard::engine {

ChildProcesses::~ChildProcesses() {
  for (const pid_t child : running_) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
}

absl::StatusOr<pid_t> ChildProcesses::Start(const std::function<absl::Status()>& work) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return absl::ResourceExhaustedError(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(getppid() == parent && work().ok() ? 0 : 1);
  }
  running_.push_back(child);
  return child;
}

absl::Status ChildProcesses::Join() {
  bool well = true;
  for (const pid_t child : std::exchange(running_, {})) {
    int status = 0;
    well &= waitpid(child, &status, 0) == child && status == 0;
  }
  return well ? absl::OkStatus() : absl::InternalError("a process of the benchmark has failed");
}

}  // namespace trainyard::engine
