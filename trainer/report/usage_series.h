// CPU use and memory of a replica over time, in a bounded number of points.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "trainer/base/process_usage.h"

namespace trainyard::engine {

// From the point before until `seconds`.
struct UsagePoint {
  double seconds = 0;    // since the series began
  double cpu_cores = 0;  // processors kept busy, on average
  int64_t resident_bytes = 0;

  friend bool operator==(const UsagePoint&, const UsagePoint&) = default;
};

// Usage of a whole run, as the report has it.
struct UsageRecord {
  double cpu_seconds = 0;  // of the process
  double cpu_cores = 0;    // on average
  int64_t max_rss_bytes = 0;
  std::vector<UsagePoint> points;
};

// How many processors were busy since the last question.
class CpuMeter {
 public:
  CpuMeter(absl::Time now, const ProcessUsage& usage) : time_(now), cpu_seconds_(usage.cpu_seconds) {}
  // 0 when no time has passed.
  double Cores(absl::Time now, const ProcessUsage& usage);

 private:
  absl::Time time_;
  double cpu_seconds_;
};

// Not thread-safe. Has its memory from the start. When it is full, every two points become one, and
// points come half as often.
class UsageSeries {
 public:
  static constexpr size_t kMostPoints = 128;

  UsageSeries(absl::Time now, const ProcessUsage& usage);

  // It is time for a further point.
  bool Due(absl::Time now) const { return now - last_ >= period_; }
  void Add(absl::Time now, const ProcessUsage& usage);
  // All points, and one more for what came since the last.
  UsageRecord Conclude(absl::Time now, const ProcessUsage& usage);

  const std::vector<UsagePoint>& points() const { return points_; }

 private:
  void HalvePoints();

  const absl::Time start_;
  const double start_cpu_seconds_;
  absl::Duration period_ = absl::Milliseconds(250);
  absl::Time last_;
  CpuMeter cpu_;
  std::vector<UsagePoint> points_;
};

}  // namespace trainyard::engine
