// A replica's use of processor, GPUs and memory as TensorBoard scalars.
#pragma once

#include <vector>

#include "trainer/devices/gpu_meter.h"
#include "trainer/report/summary_writer.h"
#include "trainer/report/usage_series.h"

namespace trainyard::engine {

// "process/cpu_cores", the mean since the call before, and "process/resident_mib".
absl::Status SummarizeUsage(int64_t step, absl::Time now, const ProcessUsage& usage, CpuMeter& cpu, SummaryWriter& summaries);

// "gpu/0/memory_used_mib" and, where it is known, "gpu/0/utilization_percent".
absl::Status SummarizeGpus(int64_t step, const std::vector<GpuReading>& gpus, SummaryWriter& summaries);

}  // namespace trainyard::engine
