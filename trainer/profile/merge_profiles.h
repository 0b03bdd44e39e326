// The replicas' profiles of one output folder → what people look at.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/profile/operator_table.h"

namespace trainyard::engine {

struct MergedProfiles {
  OperatorTable table;
  absl::Status written;  // of the files; the table is good in any case, as from a disk that is read-only
};

// Reads <dir>/profiles/*.json and writes <dir>/trace.json (chrome_trace.h), <dir>/profile.txt and
// <dir>/profile.json (operator_table.h, and how the clocks were aligned). Nothing is written, and
// nothing returned, where no replica has recorded a profile. May be called at any time, also while
// the job still runs.
absl::StatusOr<std::optional<MergedProfiles>> MergeProfiles(const std::string& dir);

}  // namespace trainyard::engine
