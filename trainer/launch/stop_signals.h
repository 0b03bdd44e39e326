// SIGINT and SIGTERM as a file descriptor.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace trainyard::engine {

// Blocks the signals that stop a run and makes them readable; restores the mask at the end.
class StopSignals {
 public:
  StopSignals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, &old_);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~StopSignals() {
    close(fd_);
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_; }
  // How many arrived since the last call.
  int Take() const {
    int count = 0;
    signalfd_siginfo info;
    while (read(fd_, &info, sizeof(info)) == sizeof(info)) ++count;
    return count;
  }

 private:
  sigset_t old_;
  int fd_;
};

}  // namespace trainyard::engine
