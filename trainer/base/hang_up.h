// SIGHUP: the terminal is gone.
#pragma once

#include <csignal>

namespace trainyard::engine {

// Whether SIGHUP ends this process: not under nohup, which ignores it. A blocked signal would come
// through all the same, so who blocks signals asks first.
inline bool HangUpEnds() {
  struct sigaction action = {};
  return sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler != SIG_IGN;
}

}  // namespace trainyard::engine
