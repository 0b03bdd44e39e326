// SIGINT, SIGTERM and SIGHUP as a file descriptor.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "trainer/base/hang_up.h"

namespace trainyard::engine {

// Blocks the signals that stop a run and makes them readable; restores the mask at the end.
class StopSignals {
 public:
  StopSignals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (HangUpEnds()) sigaddset(&set, SIGHUP);
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
  // How many arrived since the last call. A terminal that goes away may hang up more than once:
  // that counts where it is the first signal.
  int Take() {
    int count = 0;
    signalfd_siginfo info;
    while (read(fd_, &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo == SIGHUP && taken_ > 0) continue;
      ++count;
      ++taken_;
    }
    return count;
  }

 private:
  sigset_t old_;
  int fd_;
  int taken_ = 0;
};

}  // namespace trainyard::engine
