#include "trainer/launch/replica_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "trainer/base/error_text.h"
#include "trainer/base/file.h"
#include "trainer/base/file_error.h"
#include "trainer/base/status_macros.h"

extern char** environ;

namespace trainyard::engine {
namespace {

std::vector<std::string> MergedEnvironment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!added.contains(std::string(text.substr(0, text.find('='))))) merged.emplace_back(text);
  }
  for (const auto& [name, value] : added) merged.push_back(fmt::format("{}={}", name, value));
  return merged;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs in the child between fork and exec: async-signal-safe calls only.
[[noreturn]] void Exec(char* const* argv, char* const* envp, int log_fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  setpgid(0, 0);  // a terminal's Ctrl-C goes to the launcher alone, which then stops the replicas in order
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null_fd, STDIN_FILENO);
  execve(argv[0], argv, envp);
  _exit(127);
}

}  // namespace

std::string Describe(const ExitStatus& status) {
  if (status.signal != 0) return fmt::format("signal {} ({})", status.signal, strsignal(status.signal));
  return fmt::format("exit code {}", status.code);
}

absl::StatusOr<ReplicaProcess> ReplicaProcess::Start(const ProcessOptions& options) {
  if (access(options.argv.front().c_str(), X_OK) != 0)
    return ErrnoStatus(errno, fmt::format("program '{}' cannot be run", options.argv.front()));
  TY_RETURN_IF_ERROR(MakeDirectories(std::filesystem::path(options.log_path).parent_path().string()));
  const int log_fd = open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_fd < 0) return FileError(errno, "open log file", options.log_path);
  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> environment = MergedEnvironment(options.environment);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Exec(argv.data(), envp.data(), log_fd, parent);
  const absl::Status forked = pid < 0 ? ErrnoStatus(errno, "no process can be started for a replica, see ulimit -u") : absl::OkStatus();
  close(log_fd);
  if (!forked.ok()) return forked;
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const absl::Status opened =
        ErrnoStatus(errno, errno == ENOSYS ? "Linux 5.3 or newer is needed" : "no process of a replica can be watched");
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return opened;
  }
  return ReplicaProcess(pid, pidfd);
}

ReplicaProcess::ReplicaProcess(ReplicaProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::exchange(other.pidfd_, -1)) {}

ReplicaProcess& ReplicaProcess::operator=(ReplicaProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  return *this;
}

ReplicaProcess::~ReplicaProcess() {
  if (pidfd_ < 0) return;
  Signal(SIGKILL);
  Reap();
}

void ReplicaProcess::Signal(int signal) const {
  if (pidfd_ >= 0) syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0);
}

ExitStatus ReplicaProcess::Reap() {
  int raw = 0;
  while (waitpid(pid_, &raw, 0) < 0 && errno == EINTR) {
  }
  close(std::exchange(pidfd_, -1));
  if (WIFSIGNALED(raw)) return {.code = 128 + WTERMSIG(raw), .signal = WTERMSIG(raw)};
  return {.code = WEXITSTATUS(raw), .signal = 0};
}

}  // namespace trainyard::engine
