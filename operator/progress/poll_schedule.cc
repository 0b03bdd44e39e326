#include "operator/progress/poll_schedule.h"

#include <algorithm>
#include <tuple>

namespace trainyard::control {
namespace {

std::string NamespaceOf(const std::string& key) { return key.substr(0, key.find('/')); }

}  // namespace

PollSchedule::Namespace& PollSchedule::Of(const std::string& key) { return namespaces_[NamespaceOf(key)]; }

void PollSchedule::Tidy(const std::string& key) {
  const auto it = namespaces_.find(NamespaceOf(key));
  if (it != namespaces_.end() && it->second.due.empty() && it->second.under_way == 0) namespaces_.erase(it);
}

void PollSchedule::Set(const std::string& key, absl::Duration due) {
  const auto [it, added] = due_of_.try_emplace(key, due);
  Namespace& space = Of(key);
  if (!added) space.due.erase({it->second, key});
  it->second = due;
  space.due.insert({due, key});
}

void PollSchedule::Remove(const std::string& key) {
  const auto it = due_of_.find(key);
  if (it == due_of_.end()) return;
  Of(key).due.erase({it->second, key});
  due_of_.erase(it);
  Tidy(key);
}

std::optional<std::string> PollSchedule::Take(absl::Duration now, absl::Duration& next_due) {
  next_due = absl::InfiniteDuration();
  Namespace* best = nullptr;
  for (auto& [name, space] : namespaces_) {
    if (space.due.empty() || space.under_way >= max_of_one_) continue;
    const absl::Duration due = space.due.begin()->first;
    if (due > now) {
      next_due = std::min(next_due, due);
    } else if (best == nullptr || std::tie(space.under_way, space.served) < std::tie(best->under_way, best->served)) {
      best = &space;
    }
  }
  if (best == nullptr) return std::nullopt;
  std::string key = best->due.begin()->second;
  best->due.erase(best->due.begin());
  due_of_.erase(key);
  ++best->under_way;
  best->served = ++turns_;
  return key;
}

void PollSchedule::Done(const std::string& key) {
  --Of(key).under_way;
  Tidy(key);
}

}  // namespace trainyard::control
