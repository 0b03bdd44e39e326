#include "trainer/kvstore/part_pull.h"

#include <algorithm>
#include <span>

namespace trainyard::engine {

void PartPull::Begin(TrainingState* into, bool with_slots) {
  into_ = into;
  with_slots_ = with_slots;
  steps_ = {};
}

PartPull::Steps PartPull::End() {
  into_ = nullptr;
  std::ranges::fill(missing_, 0);
  return steps_;
}

bool PartPull::Ask(int server) {
  const auto parts = static_cast<size_t>(std::ranges::count(parts_, server, &Part::server));
  missing_[server] = parts * (with_slots_ ? 1 + slots_ : 1);
  return missing_[server] > 0;
}

void PartPull::Store(int server, int part, size_t slot, int64_t step, const Payload& values) {
  if (!AskedOf(server) || slot > into_->slots.size()) return;
  const Part& where = parts_[part];
  ParameterSet& target = slot == 0 ? into_->parameters : into_->slots[slot - 1];
  PayloadReader(values).Read(std::as_writable_bytes(target.values(where.key).subspan(where.begin, where.count)));
  into_->step = std::max(into_->step, step);
  steps_.lowest = steps_.lowest < 0 ? step : std::min(steps_.lowest, step);
  steps_.highest = std::max(steps_.highest, step);
  --missing_[server];
}

}  // namespace trainyard::engine
