#include "trainer/serve/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/serve/quoted.h"

namespace trainyard::engine {

absl::Status Sequences::Go(const SequenceRequest& request, const std::shared_ptr<const int64_t>& version, absl::Time now, Submit submit) {
  const MutexLock lock(&mutex_);
  auto found = live_.find(request.id);
  if (found != live_.end() && IsOver(found->second, now)) {
    live_.erase(found);
    found = live_.end();
  }
  if (!request.start && found == live_.end()) {
    return absl::FailedPreconditionError(
        fmt::format("parameters.sequence_id: found {}, which has not begun, has ended, or was idle for {} (--sequence-idle); begin it with "
                    "sequence_start",
                    InQuotes(request.id), absl::FormatDuration(options_.idle)));
  }
  if (!request.start && found->second.version != version) {
    const int64_t before = *found->second.version;
    live_.erase(found);
    return absl::FailedPreconditionError(fmt::format(
        "parameters.sequence_id: found {}, which began with version {} of the model and ended with it: version {} is served now; "
        "begin it again with sequence_start",
        InQuotes(request.id), before, *version));
  }
  const bool keeps = !request.end;
  if (request.start && keeps && found == live_.end() && static_cast<int64_t>(live_.size()) >= options_.most) {
    ForgetOld(now);
    if (static_cast<int64_t>(live_.size()) >= options_.most) {
      return absl::ResourceExhaustedError(
          fmt::format("{} sequences live, at most {} may (--max-sequences); try again later", live_.size(), options_.most));
    }
  }
  const std::shared_ptr<CarriedRow> carried = request.start ? std::make_shared<CarriedRow>() : found->second.carried;
  TY_RETURN_IF_ERROR(submit(carried));
  if (keeps) {
    live_[request.id] = {.carried = carried, .version = version, .last = now};
  } else {
    live_.erase(request.id);
  }
  return absl::OkStatus();
}

int64_t Sequences::live(absl::Time now) const {
  const MutexLock lock(&mutex_);
  return std::ranges::count_if(live_, [&](const auto& entry) { return !IsOver(entry.second, now); });
}

void Sequences::ForgetOld(absl::Time now) {
  std::erase_if(live_, [&](const auto& entry) { return IsOver(entry.second, now); });
}

}  // namespace trainyard::engine
