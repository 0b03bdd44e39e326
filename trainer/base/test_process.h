// For tests of what limits and sudden ends do to a process: children that run one function, and
// limits.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>

namespace trainyard::engine {

// The exit code of a child process that ends with the result of `work`; -1: a signal ended it.
inline int ExitCodeOf(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether `work` is true in a child process that may have `bytes` of address space more than this
// process has now.
inline bool HoldsWithMoreMemory(rlim_t bytes, const std::function<bool()>& work) {
  return ExitCodeOf([&] {
           std::ifstream statm("/proc/self/statm");
           rlim_t pages = 0;
           statm >> pages;
           const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + bytes;
           const rlimit limit{most, most};
           return ::setrlimit(RLIMIT_AS, &limit) == 0 && work() ? 0 : 1;
         }) == 0;
}

// While it lives, files of this process end at `bytes`. As with a full disk, a write in the middle
// of a file is refused.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*const old_handler_)(int);
  rlimit before_{};
};

}  // namespace trainyard::engine
