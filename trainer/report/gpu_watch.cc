#include "trainer/report/gpu_watch.h"

#include <algorithm>

namespace trainyard::engine {

void GpuWatch::Sample(absl::Time now) {
  last_ = now;
  readings_ = meter_->Read();
  for (const GpuReading& reading : readings_) {
    auto total = std::ranges::find(totals_, reading.gpu, [](const Total& t) { return t.record.gpu; });
    if (total == totals_.end()) {
      totals_.push_back({.record = {.gpu = reading.gpu, .name = reading.name}});
      total = totals_.end() - 1;
    }
    total->record.memory_total_bytes = reading.memory_total_bytes;
    total->record.max_memory_used_bytes = std::max(total->record.max_memory_used_bytes, reading.memory_used_bytes);
    if (!reading.utilization) continue;
    total->utilization += *reading.utilization;
    ++total->samples;
  }
}

std::optional<std::vector<GpuRecord>> GpuWatch::Conclude(absl::Time now) {
  if (meter_ == nullptr) return std::nullopt;
  if (now > last_) Sample(now);
  std::vector<GpuRecord> records;
  for (const Total& total : totals_) {
    GpuRecord& record = records.emplace_back(total.record);
    if (total.samples > 0) record.utilization = total.utilization / total.samples;
  }
  return records;
}

}  // namespace trainyard::engine
