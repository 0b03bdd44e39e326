#include "trainer/base/long_wait.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/base/log.h"

namespace trainyard::engine {

void LongWait::Look(absl::Time now, absl::FunctionRef<std::string()> what) {
  const absl::Duration waited = notice_.Length(now);
  if (waited < kShownWait) return;
  const std::string awaited = what();
  if (awaited.empty()) return;
  const std::string text = fmt::format("{} waits, {}: {}", who_, absl::FormatDuration(waited), awaited);
  if (notice_.Due(now)) LogWarning("{}", text);
  if (!told_) return;
  told_(text);
  shown_ = true;
}

void LongWait::Restart(absl::Time now) {
  Over();
  notice_ = WaitNotice(now, kLogPeriod);
}

void LongWait::Over() {
  if (std::exchange(shown_, false)) told_("");
}

}  // namespace trainyard::engine
