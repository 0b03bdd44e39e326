#include "trainer/kvstore/part_round.h"

#include <algorithm>
#include <utility>

namespace trainyard::engine {

bool PartRound::Hold(int worker, int64_t step, PushedGradient gradient, absl::Time now) {
  Held& held = held_[worker];
  if (held.step >= step) return false;
  held = {step, std::move(gradient)};
  if (step == step_ && CountPushed() == 1) since_ = now;
  return true;
}

void PartRound::Advance(absl::Time now) {
  for (Held& held : held_) {
    if (held.step == step_) held = {};
  }
  ++step_;
  if (CountPushed() > 0) since_ = now;
}

void PartRound::DropFrom(int64_t step) {
  for (Held& held : held_) {
    if (held.step >= step) held = {};
  }
}

size_t PartRound::CountPushed() const { return std::ranges::count(held_, step_, &Held::step); }

std::vector<int> PartRound::WorkersWhere(bool pushed) const {
  std::vector<int> workers;
  for (size_t i = 0; i < held_.size(); ++i) {
    if ((held_[i].step == step_) == pushed) workers.push_back(static_cast<int>(i));
  }
  return workers;
}

}  // namespace trainyard::engine
