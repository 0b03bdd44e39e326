#include "trainer/train/stop_request.h"

#include <pthread.h>
#include <unistd.h>

#include "trainer/base/clock.h"
#include "trainer/base/early_stop.h"
#include "trainer/base/hang_up.h"
#include "trainer/base/log.h"
#include "trainer/base/one_stop.h"
#include "trainer/job/exit_code.h"

namespace trainyard::engine {

StopRequest::StopRequest() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR2}) sigaddset(&signals, signal);  // SIGUSR2: this object is going away
  if (HangUpEnds()) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  EndOnSigtermNoMore();
  watcher_ = std::thread([this, signals] { Watch(signals); });
}

StopRequest::~StopRequest() {
  ending_ = true;
  pthread_kill(watcher_.native_handle(), SIGUSR2);
  watcher_.join();
}

void StopRequest::Watch(sigset_t signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  if (ending_) return;
  const absl::Duration grace = absl::Milliseconds(grace_ms_.load());
  LogInfo("signal {}: stopping, within {}", signal, absl::FormatDuration(grace));
  requested_.Notify();
  sigdelset(&signals, SIGHUP);  // a terminal that goes away may hang up more than once
  const absl::Time first = RealClock().Now();
  for (absl::Time now = first; now < first + grace; now = RealClock().Now()) {
    const timespec wait = absl::ToTimespec(first + grace - now);
    const bool came = sigtimedwait(&signals, nullptr, &wait) > 0;
    if (ending_) return;
    if (came && RealClock().Now() >= first + kOneStop) break;
  }
  LogWarning("stopped without a clean end: the grace of {} is over, or a second signal came", absl::FormatDuration(grace));
  FlushLog();
  _exit(kStoppedExitCode);
}

}  // namespace trainyard::engine
