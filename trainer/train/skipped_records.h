// What the report says of checkpoints from which a training could not go on. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/report/replica_report.h"

namespace trainyard::engine {

// A record for each of `skipped` (newest first), where the training goes on from `step`, 0: from
// its start. The steps lost with one are those since the one before it, so their sum is all that
// were lost.
std::vector<RestartRecord> SkippedRecords(std::span<const SkippedCheckpoint> skipped, int64_t step);

}  // namespace trainyard::engine
