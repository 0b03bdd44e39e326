#include "operator/trainingjob/refusals.h"

#include <algorithm>
#include <utility>

namespace trainyard::control {
namespace {

constexpr absl::Duration kFirstWait = absl::Seconds(1);
constexpr absl::Duration kLongestWait = absl::Minutes(1);

}  // namespace

bool Refusals::Note(const TrainingJob& job, Refusal refusal) {
  MutexLock lock(mutex_);
  const auto [it, first] = jobs_.try_emplace(job.meta.Key());
  OfJob& known = it->second;
  const bool news = first || known.uid != job.meta.uid || known.refusal != refusal;
  const bool again = !first && known.uid == job.meta.uid && known.generation == job.meta.generation;
  known.wait = again ? std::min(known.wait * 2, kLongestWait) : kFirstWait;
  known.retry_at = clock_.Monotonic() + known.wait;
  known.uid = job.meta.uid;
  known.generation = job.meta.generation;
  known.refusal = std::move(refusal);
  return news;
}

std::optional<Refusal> Refusals::Known(const TrainingJob& job) {
  MutexLock lock(mutex_);
  const auto it = jobs_.find(job.meta.Key());
  if (it == jobs_.end() || it->second.uid != job.meta.uid) return std::nullopt;
  Refusal refusal = it->second.refusal;
  const absl::Duration left =
      it->second.generation == job.meta.generation ? it->second.retry_at - clock_.Monotonic() : absl::ZeroDuration();
  refusal.wait = std::max(left, absl::ZeroDuration());
  return refusal;
}

void Refusals::Forget(const std::string& job_key) {
  MutexLock lock(mutex_);
  jobs_.erase(job_key);
}

}  // namespace trainyard::control
