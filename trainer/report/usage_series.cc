#include "trainer/report/usage_series.h"

#include <algorithm>

namespace trainyard::engine {

double CpuMeter::Cores(absl::Time now, const ProcessUsage& usage) {
  const double elapsed = absl::ToDoubleSeconds(now - time_);
  if (elapsed <= 0) return 0;
  const double cores = (usage.cpu_seconds - cpu_seconds_) / elapsed;
  time_ = now;
  cpu_seconds_ = usage.cpu_seconds;
  return cores;
}

UsageSeries::UsageSeries(absl::Time now, const ProcessUsage& usage)
    : start_(now), start_cpu_seconds_(usage.cpu_seconds), last_(now), cpu_(now, usage) {
  points_.reserve(kMostPoints);
}

void UsageSeries::Add(absl::Time now, const ProcessUsage& usage) {
  if (now <= last_) return;
  if (points_.size() == kMostPoints) HalvePoints();
  last_ = now;
  points_.push_back(
      {.seconds = absl::ToDoubleSeconds(now - start_), .cpu_cores = cpu_.Cores(now, usage), .resident_bytes = usage.resident_bytes});
}

void UsageSeries::HalvePoints() {
  double begin = 0;
  for (size_t i = 0; i + 1 < points_.size(); i += 2) {
    const UsagePoint& a = points_[i];
    const UsagePoint& b = points_[i + 1];
    const double cores = (a.cpu_cores * (a.seconds - begin) + b.cpu_cores * (b.seconds - a.seconds)) / (b.seconds - begin);
    begin = b.seconds;
    points_[i / 2] = {.seconds = b.seconds, .cpu_cores = cores, .resident_bytes = std::max(a.resident_bytes, b.resident_bytes)};
  }
  points_.resize(kMostPoints / 2);
  period_ *= 2;
}

UsageRecord UsageSeries::Conclude(absl::Time now, const ProcessUsage& usage) {
  Add(now, usage);
  const double elapsed = absl::ToDoubleSeconds(now - start_);
  return {.cpu_seconds = usage.cpu_seconds,
          .cpu_cores = elapsed > 0 ? (usage.cpu_seconds - start_cpu_seconds_) / elapsed : 0,
          .max_rss_bytes = usage.peak_resident_bytes,
          .points = points_};
}

}  // namespace trainyard::engine
