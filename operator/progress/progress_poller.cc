#include "operator/progress/progress_poller.h"

#include <algorithm>
#include <utility>

#include "operator/base/log.h"

namespace trainyard::control {
namespace {

constexpr absl::Duration kFirstWait = absl::Seconds(1);  // a new chief needs a moment to listen

template <typename Answer>
std::optional<Answer> Parsed(const std::string& text);

template <>
std::optional<Progress> Parsed(const std::string& text) {
  return ParseProgress(text);
}

template <>
std::optional<ServedVersion> Parsed(const std::string& text) {
  return ParseServedVersion(text);
}

}  // namespace

template <typename Answer>
Poller<Answer>::Poller(Clock& clock, ProgressFetch fetch, ProgressPollerOptions options,
                       std::function<void(const std::string& key)> changed)
    : clock_(clock),
      fetch_(std::move(fetch)),
      options_(options),
      changed_(std::move(changed)),
      schedule_(std::max(1, options.parallel / 2)) {}

template <typename Answer>
Poller<Answer>::~Poller() {
  Stop();
}

template <typename Answer>
void Poller<Answer>::Start() {
  for (int i = 0; i < options_.parallel; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }
}

template <typename Answer>
void Poller<Answer>::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

template <typename Answer>
void Poller<Answer>::Watch(const std::string& key, const ProgressTarget& target) {
  MutexLock lock(mutex_);
  const auto [it, is_new] = chiefs_.try_emplace(key);
  Chief& chief = it->second;
  if (!is_new && chief.target == target) return;
  chief = {.target = target, .wait = std::min(options_.interval, kFirstWait)};
  schedule_.Set(key, clock_.Monotonic() + std::min(options_.interval, kFirstWait));
  wake_.NotifyOne();
}

template <typename Answer>
void Poller<Answer>::Hurry(const std::string& key) {
  MutexLock lock(mutex_);
  const auto it = chiefs_.find(key);
  if (it == chiefs_.end()) return;
  it->second.hangs = 0;
  it->second.wait = std::min(options_.interval, kFirstWait);
  schedule_.Set(key, clock_.Monotonic() + it->second.wait);
  wake_.NotifyOne();
}

template <typename Answer>
void Poller<Answer>::Forget(const std::string& key) {
  MutexLock lock(mutex_);
  chiefs_.erase(key);
  schedule_.Remove(key);
}

template <typename Answer>
PollReport<Answer> Poller<Answer>::Report(const std::string& key) const {
  MutexLock lock(mutex_);
  const auto it = chiefs_.find(key);
  return it == chiefs_.end() ? PollReport<Answer>{} : it->second.report;
}

template <typename Answer>
void Poller<Answer>::Work(const std::stop_token& stop) {
  while (true) {
    std::string key;
    ProgressTarget target;
    {
      MutexLock lock(mutex_);
      absl::Duration next_due;
      std::optional<std::string> due;
      while (!stopping_ && !(due = schedule_.Take(clock_.Monotonic(), next_due))) clock_.WaitUntil(wake_, mutex_, next_due);
      if (stopping_) return;
      key = *due;
      target = chiefs_[key].target;
      wake_.NotifyOne();  // there may be work for another thread, or a later time to wait for
    }
    Ask(key, target, stop);
  }
}

template <typename Answer>
absl::Duration Poller<Answer>::WaitAfter(Chief& chief, bool hung) const {
  const absl::Duration young = std::exchange(chief.wait, std::min(options_.interval, 2 * chief.wait));
  if (!hung) chief.hangs = 0;
  if (!hung || young < options_.interval) return young;
  ++chief.hangs;
  return std::min(options_.interval * (1 << std::min(chief.hangs, 10)), options_.max_interval);
}

template <typename Answer>
void Poller<Answer>::Ask(const std::string& key, const ProgressTarget& target, const std::stop_token& stop) {
  const absl::StatusOr<std::string> answer = fetch_(target, stop);
  std::optional<Answer> latest = answer.ok() ? Parsed<Answer>(*answer) : std::nullopt;
  std::string problem;
  if (!answer.ok()) problem = std::string(answer.status().message());
  if (answer.ok() && !latest) problem = "its answer is not that of docs/contract.md";
  if (!problem.empty()) LogDebug("{}: {} {}: {}", key, target.kind, target.name, problem);
  bool is_new = false;
  {
    MutexLock lock(mutex_);
    schedule_.Done(key);
    wake_.NotifyOne();
    const auto it = chiefs_.find(key);
    if (it == chiefs_.end() || it->second.target != target) return;  // another is watched by now
    Chief& chief = it->second;
    schedule_.Set(key, clock_.Monotonic() + WaitAfter(chief, absl::IsDeadlineExceeded(answer.status())));
    is_new = latest && chief.report.latest != latest;
    if (is_new) chief.report.latest = std::move(latest);
    chief.report.problem = std::move(problem);
  }
  if (is_new) changed_(key);
}

template class Poller<Progress>;
template class Poller<ServedVersion>;

}  // namespace trainyard::control
