#include "trainer/base/straggler_watch.h"

#include <algorithm>

namespace trainyard::engine {

absl::Duration MedianPace(std::span<const WorkerPace> paces) {
  if (paces.empty()) return absl::ZeroDuration();
  std::vector<absl::Duration> steps;
  for (const WorkerPace& pace : paces) steps.push_back(pace.step);
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>((steps.size() - 1) / 2);
  std::ranges::nth_element(steps, middle);
  return *middle;
}

std::vector<StragglerWatch::Change> StragglerWatch::Judge(std::span<const WorkerPace> paces) {
  const absl::Duration median = MedianPace(paces);
  std::vector<Change> changes;
  std::map<int, Straggler> gone = stragglers_;
  for (const WorkerPace& pace : paces) {
    const Straggler now{.pace = pace, .median = median};
    const bool before = gone.erase(pace.worker) > 0;
    if (!before && pace.step > kBegins * median) {
      stragglers_.emplace(pace.worker, now);
      changes.push_back({.straggler = now, .begins = true});
    } else if (before && pace.step < kEnds * median) {
      stragglers_.erase(pace.worker);
      changes.push_back({.straggler = now, .begins = false});
    }
  }
  for (const auto& [worker, straggler] : gone) {
    stragglers_.erase(worker);
    changes.push_back({.straggler = straggler, .begins = false});
  }
  return changes;
}

}  // namespace trainyard::engine
