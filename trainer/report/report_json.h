// A replica's part of the report as JSON and back.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/report/replica_report.h"

namespace trainyard::engine {

std::string ReplicaReportJson(const ReplicaReport& report);
// InvalidArgument names the field; `name` is what errors call the text. Numbers that are not finite
// come back as NaN.
absl::StatusOr<ReplicaReport> ParseReplicaReport(std::string_view text, std::string_view name);

}  // namespace trainyard::engine
