#include "trainer/report/usage_summary.h"

#include <fmt/format.h>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr double kMebibyte = 1 << 20;

}  // namespace

absl::Status SummarizeUsage(int64_t step, absl::Time now, const ProcessUsage& usage, CpuMeter& cpu, SummaryWriter& summaries) {
  TY_RETURN_IF_ERROR(summaries.Scalar(step, "process/cpu_cores", cpu.Cores(now, usage)));
  return summaries.Scalar(step, "process/resident_mib", static_cast<double>(usage.resident_bytes) / kMebibyte);
}

absl::Status SummarizeGpus(int64_t step, const std::vector<GpuReading>& gpus, SummaryWriter& summaries) {
  for (const GpuReading& gpu : gpus) {
    TY_RETURN_IF_ERROR(
        summaries.Scalar(step, fmt::format("gpu/{}/memory_used_mib", gpu.gpu), static_cast<double>(gpu.memory_used_bytes) / kMebibyte));
    if (!gpu.utilization) continue;
    TY_RETURN_IF_ERROR(summaries.Scalar(step, fmt::format("gpu/{}/utilization_percent", gpu.gpu), 100 * *gpu.utilization));
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
