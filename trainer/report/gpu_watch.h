// A replica's GPUs over a run: the newest samples for metrics and summaries, totals for the report.
#pragma once

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "trainer/devices/gpu_meter.h"
#include "trainer/report/replica_report.h"

namespace trainyard::engine {

// Used from the step loop's thread. Without a meter it never has anything.
class GpuWatch {
 public:
  static constexpr absl::Duration kPeriod = absl::Seconds(1);

  explicit GpuWatch(GpuMeter* meter) : meter_(meter) {}

  // It is time for a further sample.
  bool Due(absl::Time now) const { return meter_ != nullptr && now - last_ >= kPeriod; }
  void Sample(absl::Time now);
  const std::vector<GpuReading>& readings() const { return readings_; }
  // One record for each GPU that was ever seen, with a last sample; nothing without a meter.
  std::optional<std::vector<GpuRecord>> Conclude(absl::Time now);

 private:
  struct Total {
    GpuRecord record;
    double utilization = 0;  // the sum over the samples that had one
    int samples = 0;
  };

  GpuMeter* const meter_;
  absl::Time last_ = absl::InfinitePast();
  std::vector<GpuReading> readings_;
  std::vector<Total> totals_;
};

}  // namespace trainyard::engine
