#include "operator/controller/runnables.h"

#include "operator/base/log.h"
#include "operator/base/status_macros.h"

namespace trainyard::control {

absl::Status Runnables::Start() {
  while (started_ < list_.size()) {
    const Runnable& next = list_[started_];
    if (const absl::Status status = next.start(); !status.ok()) {
      Stop();
      return WithContext(status, next.name);
    }
    ++started_;
  }
  return absl::OkStatus();
}

void Runnables::Stop() {
  while (started_ > 0) {
    const Runnable& last = list_[--started_];
    LogDebug("stops {}", last.name);
    last.stop();
  }
}

}  // namespace trainyard::control
