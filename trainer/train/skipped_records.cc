#include "trainer/train/skipped_records.h"

#include <fmt/format.h>

namespace trainyard::engine {

std::vector<RestartRecord> SkippedRecords(std::span<const SkippedCheckpoint> skipped, int64_t step) {
  std::vector<RestartRecord> records;
  for (size_t i = 0; i < skipped.size(); ++i) {
    const int64_t before = i + 1 < skipped.size() ? skipped[i + 1].step : step;
    records.push_back({.replica = "checkpoint",
                       .reason = fmt::format("skipped {}: {}", skipped[i].path, skipped[i].reason),
                       .step = step,
                       .lost_steps = skipped[i].step - before});
  }
  return records;
}

}  // namespace trainyard::engine
