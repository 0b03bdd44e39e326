// A replica's CPU use and memory as TensorBoard scalars.
#pragma once

#include "trainer/report/summary_writer.h"
#include "trainer/report/usage_series.h"

namespace trainyard::engine {

// "process/cpu_cores", the mean since the call before, and "process/resident_mib".
absl::Status SummarizeUsage(int64_t step, absl::Time now, const ProcessUsage& usage, CpuMeter& cpu, SummaryWriter& summaries);

}  // namespace trainyard::engine
