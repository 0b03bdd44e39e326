#include "operator/trainingjob/conditions.h"

#include <algorithm>
#include <array>

namespace trainyard::control {
namespace {

constexpr size_t kMaxMessage = 1024;
constexpr std::array<std::string_view, 8> kOrder = {kCreated, kRunning, kRestarting, kSuspended, kStalled, kSucceeded, kFailed, kInvalid};

auto Rank(std::string_view type) { return std::find(kOrder.begin(), kOrder.end(), type) - kOrder.begin(); }

}  // namespace

bool SetCondition(TrainingJobStatus& status, std::string_view type, bool value, std::string_view reason, std::string message,
                  absl::Time now) {
  if (message.size() > kMaxMessage) message = message.substr(0, kMaxMessage - 3) + "...";
  for (Condition& condition : status.conditions) {
    if (condition.type != type) continue;
    const bool flipped = condition.status != value;
    if (flipped) condition.last_transition = now;
    condition.status = value;
    condition.reason = reason;
    condition.message = std::move(message);
    return flipped;
  }
  status.conditions.push_back({std::string(type), value, std::string(reason), std::move(message), now});
  std::stable_sort(status.conditions.begin(), status.conditions.end(),
                   [](const Condition& a, const Condition& b) { return Rank(a.type) < Rank(b.type); });
  return value;
}

bool ClearCondition(TrainingJobStatus& status, std::string_view type, std::string_view reason, std::string message, absl::Time now) {
  const Condition* condition = status.Find(type);
  if (condition == nullptr || !condition->status) return false;
  return SetCondition(status, type, false, reason, std::move(message), now);
}

}  // namespace trainyard::control
