#include "trainer/kvstore/pending_pushes.h"

#include <algorithm>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {

PendingPushes::PendingPushes(const Placement& placement, const std::vector<ParameterSpec>& specs, int servers)
    : parts_(placement.parts), specs_(specs), servers_(servers), pushes_(placement.parts.size()) {
  for (const Part& part : parts_) trainable_parts_ += specs_[part.key].trainable ? 1 : 0;
}

void PendingPushes::Add(int part, PartPush push) {
  TY_CHECK(!pushes_[part].outstanding);
  push.order = count_++;
  push.outstanding = true;
  pushes_[part] = push;
  ++outstanding_;
  if (specs_[parts_[part].key].trainable) ++unflushed_;
}

void PendingPushes::Answer(int part, Payload values, std::optional<std::vector<int32_t>> rows) {
  pushes_[part].outstanding = false;
  --outstanding_;
  arrived_.push_back({.part = part, .step = pushes_[part].step, .values = std::move(values), .rows = std::move(rows)});
}

void PendingPushes::DropFrom(int64_t step) {
  for (PartPush& push : pushes_) {
    if (!push.outstanding || push.step < step) continue;
    push.outstanding = false;
    --outstanding_;
  }
}

void PendingPushes::Forget() {
  std::ranges::fill(pushes_, PartPush{});
  outstanding_ = unflushed_ = 0;
  arrived_.clear();
}

std::vector<int> PendingPushes::Resend(int server, std::optional<int64_t> unfinished_step) {
  std::vector<int> again;
  for (size_t i = 0; i < pushes_.size(); ++i) {
    if (parts_[i].server != server) continue;
    PartPush& push = pushes_[i];
    if (!push.outstanding) {
      if (!unfinished_step || push.gradient.values.empty() || push.step != *unfinished_step) continue;
      push.outstanding = true;
      ++outstanding_;
    }
    again.push_back(static_cast<int>(i));
  }
  std::ranges::sort(again, {}, [this](int part) { return pushes_[part].order; });
  return again;
}

std::vector<ArrivedValues> PendingPushes::TakeArrived() { return std::exchange(arrived_, {}); }

int PendingPushes::FirstOutstanding() const {
  const auto found = std::ranges::find(pushes_, true, &PartPush::outstanding);
  return found == pushes_.end() ? -1 : static_cast<int>(found - pushes_.begin());
}

std::vector<bool> PendingPushes::ServersThatOwe() const {
  std::vector<bool> owes(servers_, false);
  for (size_t i = 0; i < pushes_.size(); ++i) {
    if (pushes_[i].outstanding) owes[parts_[i].server] = true;
  }
  return owes;
}

}  // namespace trainyard::engine
