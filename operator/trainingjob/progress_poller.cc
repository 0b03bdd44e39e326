#include "operator/trainingjob/progress_poller.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "operator/trainingjob/progress_json.h"

namespace trainyard::control {

ProgressPoller::ProgressPoller(Clock& clock, ProgressFetch fetch, ProgressPollerOptions options,
                               std::function<void(const std::string& key)> changed)
    : clock_(clock), fetch_(std::move(fetch)), options_(options), changed_(std::move(changed)) {}

ProgressPoller::~ProgressPoller() { Stop(); }

void ProgressPoller::Start() {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this](std::stop_token stop) { Work(stop); });
  }
}

void ProgressPoller::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  threads_.clear();
}

void ProgressPoller::Watch(const std::string& key, const ProgressTarget& target) {
  MutexLock lock(mutex_);
  const auto [it, is_new] = chiefs_.try_emplace(key);
  Chief& chief = it->second;
  if (!is_new && chief.target == target) return;
  chief.target = target;
  chief.failures = 0;
  chief.due = clock_.Monotonic() + std::min(options_.interval, absl::Seconds(1));  // a new chief needs a moment to listen
  wake_.NotifyOne();
}

void ProgressPoller::Forget(const std::string& key) {
  MutexLock lock(mutex_);
  chiefs_.erase(key);
}

std::optional<Progress> ProgressPoller::Latest(const std::string& key) const {
  MutexLock lock(mutex_);
  const auto it = chiefs_.find(key);
  return it == chiefs_.end() ? std::nullopt : it->second.latest;
}

std::optional<std::string> ProgressPoller::NextDue(absl::Duration& wait_until) {
  const absl::Duration now = clock_.Monotonic();
  wait_until = absl::InfiniteDuration();
  for (auto& [key, chief] : chiefs_) {
    if (chief.asking) continue;
    if (chief.due <= now) return key;
    wait_until = std::min(wait_until, chief.due);
  }
  return std::nullopt;
}

void ProgressPoller::Work(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::string key;
    ProgressTarget target;
    {
      MutexLock lock(mutex_);
      absl::Duration wait_until;
      std::optional<std::string> due;
      while (!stopping_ && !(due = NextDue(wait_until))) clock_.WaitUntil(wake_, mutex_, wait_until);
      if (stopping_) return;
      key = *due;
      Chief& chief = chiefs_[key];
      chief.asking = true;
      target = chief.target;
    }
    Ask(key, target);
  }
}

void ProgressPoller::Ask(const std::string& key, const ProgressTarget& target) {
  const absl::StatusOr<std::string> answer = fetch_(target);
  std::optional<Progress> progress = answer.ok() ? ParseProgress(*answer) : std::nullopt;
  if (!answer.ok()) spdlog::debug("progress of {}: pod {}: {}", key, target.pod, answer.status().ToString());
  bool is_new = false;
  {
    MutexLock lock(mutex_);
    const auto it = chiefs_.find(key);
    if (it == chiefs_.end()) return;
    Chief& chief = it->second;
    chief.asking = false;
    chief.failures = progress ? 0 : chief.failures + 1;
    chief.due = clock_.Monotonic() + std::min(options_.interval * (1 << std::min(chief.failures, 10)), options_.max_interval);
    if (chief.failures == 0) chief.due = clock_.Monotonic() + options_.interval;
    is_new = progress && (!chief.latest || !SameProgress(*chief.latest, *progress));
    if (is_new) chief.latest = std::move(progress);
    wake_.NotifyOne();
  }
  if (is_new) changed_(key);
}

}  // namespace trainyard::control
