#include "trainer/report/usage_summary.h"

#include "trainer/base/status_macros.h"

namespace trainyard::engine {

absl::Status SummarizeUsage(int64_t step, absl::Time now, const ProcessUsage& usage, CpuMeter& cpu, SummaryWriter& summaries) {
  constexpr double kMebibyte = 1 << 20;
  TY_RETURN_IF_ERROR(summaries.Scalar(step, "process/cpu_cores", cpu.Cores(now, usage)));
  return summaries.Scalar(step, "process/resident_mib", static_cast<double>(usage.resident_bytes) / kMebibyte);
}

}  // namespace trainyard::engine
