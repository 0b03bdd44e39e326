// report.json: what a finished job leaves for people and scripts. Each replica writes its part, the
// launcher merges them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/profile/operator_table.h"
#include "trainer/report/replica_report.h"

namespace trainyard::engine {

// "<dir>/replicas/<role>-<index>.json"
std::string ReplicaReportPath(const std::string& dir, std::string_view role, int index);
absl::Status WriteReplicaReport(const std::string& dir, const ReplicaReport& report);
// Every replicas/*.json. An unreadable file is an error that names it.
absl::StatusOr<std::vector<ReplicaReport>> ReadReplicaReports(const std::string& dir);

struct FailureRecord {
  std::string replica;
  std::string reason;
};

// The launcher's part of the report.
struct JobOutcome {
  std::string job;
  std::string state;  // Succeeded | Failed | Stopped
  int workers = 0;
  int ps = 0;
  double seconds = 0;  // of the whole job, start-up included
  // As far as others know: a chief that was killed has left no report, or an earlier process's.
  int64_t steps = 0;
  int64_t first_step = 0;  // of an earlier launch, from which this one went on; seconds and speeds begin there
  int64_t planned_steps = 0;
  int64_t planned_epochs = 0;
  std::vector<FailureRecord> failures;
  std::vector<RestartRecord> restarts;
  std::optional<OperatorTable> profile;  // absent when nothing was profiled
};

// What the parts alone tell of a job whose launcher is not there: seconds are those of the worker
// that trained longest, and failures are not known. It has Succeeded where the chief has reported
// its planned steps or an early end, else it was Stopped.
JobOutcome OutcomeOf(std::string job, const std::vector<ReplicaReport>& replicas, std::optional<OperatorTable> profile);

// The whole report as JSON text, fields in the documented order. Speeds are totals over the workers
// without start-up.
std::string MergeReport(const JobOutcome& outcome, const std::vector<ReplicaReport>& replicas);
// Merges and replaces <dir>/report.json.
absl::Status WriteReport(const std::string& dir, const JobOutcome& outcome, const std::vector<ReplicaReport>& replicas);

}  // namespace trainyard::engine
