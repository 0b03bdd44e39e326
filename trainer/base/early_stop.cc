#include "trainer/base/early_stop.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace trainyard::engine {
namespace {

std::atomic<int> exit_code_of_sigterm = 1;  // a signal's handler takes no more than its number

void SetAction(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

void EndOnSigterm(int exit_code) {
  exit_code_of_sigterm = exit_code;
  SetAction([](int) { ::_exit(exit_code_of_sigterm); });
}

void EndOnSigtermNoMore() { SetAction(SIG_DFL); }

}  // namespace trainyard::engine
