#include "operator/plan/conditions.h"

#include <algorithm>
#include <array>

#include "operator/api/text.h"

namespace trainyard::control {
namespace {

constexpr std::array<std::string_view, 9> kOrder = {kCreated,   kRunning, kRestarting, kSuspended, kStalled,
                                                    kSucceeded, kFailed,  kInvalid,    kServing};

auto Rank(std::string_view type) { return std::find(kOrder.begin(), kOrder.end(), type) - kOrder.begin(); }

}  // namespace

bool SetCondition(TrainingJobStatus& status, std::string_view type, bool value, std::string_view reason, std::string message,
                  absl::Time now) {
  message = Head(message, kMaxMessage);
  for (Condition& condition : status.conditions) {
    if (condition.type != type) continue;
    const bool flipped = condition.status != value;
    if (flipped) condition.last_transition = now;
    condition.status = value;
    condition.reason = reason;
    condition.message = std::move(message);
    return flipped;
  }
  const auto after = std::find_if(status.conditions.begin(), status.conditions.end(),
                                  [&](const Condition& other) { return Rank(other.type) > Rank(type); });
  status.conditions.insert(after, {std::string(type), value, std::string(reason), std::move(message), now});
  return value;
}

bool ClearCondition(TrainingJobStatus& status, std::string_view type, std::string_view reason, std::string message, absl::Time now) {
  const Condition* condition = status.Find(type);
  if (condition == nullptr || !condition->status) return false;
  return SetCondition(status, type, false, reason, std::move(message), now);
}

}  // namespace trainyard::control
