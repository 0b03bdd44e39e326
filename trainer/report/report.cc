#include "trainer/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/report/report_fields.h"
#include "trainer/report/report_json.h"
#include "trainyard_version.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kMaxReportBytes = 64 << 20;
constexpr size_t kNodesInReport = 20;

std::string CpuName() {
  constexpr std::string_view kField = "model name";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t value = line.find(": ");
    if (line.starts_with(kField) && value != std::string::npos) return line.substr(value + 2);
  }
  return "unknown";
}

double Rate(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

// Each worker's mean counts as often as it pushed.
Staleness MergeStaleness(const std::vector<ReplicaReport>& replicas) {
  Staleness merged;
  double sum = 0;
  double weights = 0;
  for (const ReplicaReport& replica : replicas) {
    if (!replica.staleness) continue;
    const double weight = replica.worker ? static_cast<double>(replica.worker->batches) : 1.0;
    sum += weight * replica.staleness->mean;
    weights += weight;
    merged.max = std::max(merged.max, replica.staleness->max);
  }
  if (weights > 0) merged.mean = sum / weights;
  return merged;
}

}  // namespace

std::string ReplicaReportPath(const std::string& dir, std::string_view role, int index) {
  return fmt::format("{}/replicas/{}-{}.json", dir, role, index);
}

absl::Status WriteReplicaReport(const std::string& dir, const ReplicaReport& report) {
  absl::Status written = MakeDirectories(dir + "/replicas");
  if (written.ok()) written = ReplaceFile(ReplicaReportPath(dir, report.role, report.index), ReplicaReportJson(report));
  return TellIfMayPass(written, "the report of this replica");
}

absl::StatusOr<std::vector<ReplicaReport>> ReadReplicaReports(const std::string& dir) {
  const std::string folder = dir + "/replicas";
  std::vector<ReplicaReport> reports;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error == std::errc::no_such_file_or_directory) return reports;
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    if (it->path().extension() != ".json") continue;
    TY_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxReportBytes));
    TY_ASSIGN_OR_RETURN(ReplicaReport report, ParseReplicaReport(text, path));
    reports.push_back(std::move(report));
  }
  if (error) return FileError(error.value(), "list folder", folder);
  std::ranges::sort(reports,
                    [](const ReplicaReport& a, const ReplicaReport& b) { return std::tie(a.role, a.index) < std::tie(b.role, b.index); });
  return reports;
}

JobOutcome OutcomeOf(std::string job, const std::vector<ReplicaReport>& replicas, std::optional<OperatorTable> profile) {
  JobOutcome outcome{.job = std::move(job), .state = "Stopped", .profile = std::move(profile)};
  for (const ReplicaReport& replica : replicas) {
    outcome.workers += replica.worker ? 1 : 0;
    outcome.ps += replica.server ? 1 : 0;
    if (replica.worker) outcome.seconds = std::max(outcome.seconds, replica.worker->seconds);
    const bool done = replica.steps >= replica.planned_steps || replica.stopped_early;
    if (replica.chief && done && !replica.parameters_sha256.empty()) outcome.state = "Succeeded";
  }
  return outcome;
}

std::string MergeReport(const JobOutcome& outcome, const std::vector<ReplicaReport>& replicas) {
  const auto chief = std::ranges::find_if(replicas, &ReplicaReport::chief);
  const bool has_chief = chief != replicas.end();
  const ReplicaReport job = has_chief ? *chief : ReplicaReport{};
  double batches_per_second = 0;
  double examples_per_second = 0;
  ordered_json workers = ordered_json::array();
  ordered_json servers = ordered_json::array();
  ordered_json restarts = ToJson(outcome.restarts);
  std::optional<EvaluatorRecord> evaluator;  // a job has one at most
  for (const ReplicaReport& replica : replicas) {
    if (replica.worker) {
      batches_per_second += Rate(replica.worker->batches, replica.worker->seconds);
      examples_per_second += Rate(replica.worker->examples, replica.worker->seconds);
      workers.push_back(ToJson(*replica.worker));
      workers.back()["role"] = replica.role;
    }
    if (replica.server) servers.push_back(ToJson(*replica.server));
    if (replica.evaluator) evaluator = replica.evaluator;
    for (const RestartRecord& restart : replica.restarts) restarts.push_back(ToJson(restart));
  }
  ordered_json failures = ordered_json::array();
  for (const FailureRecord& failure : outcome.failures) failures.push_back({{"replica", failure.replica}, {"reason", failure.reason}});

  ordered_json report = {{"job", outcome.job},
                         {"state", outcome.state},
                         {"model", job.model},
                         {"strategy", job.strategy},
                         {"workers", outcome.workers},
                         {"ps", outcome.ps},
                         {"batchSize", job.batch_size},
                         {"devices", job.devices},
                         {"precision", job.precision},
                         {"kernels", job.kernels},
                         {"computedOn", job.computed_on},
                         {"computedOnReason", job.computed_on_reason},
                         {"epochs", job.epochs},
                         {"plannedEpochs", has_chief ? job.planned_epochs : outcome.planned_epochs},
                         {"steps", std::max(job.steps, outcome.steps)},
                         {"plannedSteps", has_chief ? job.planned_steps : outcome.planned_steps},
                         {"seconds", outcome.seconds},
                         {"batchesPerSecond", batches_per_second},
                         {"examplesPerSecond", examples_per_second},
                         {"unit", job.unit.name},
                         {"unitsPerSecond", examples_per_second * static_cast<double>(job.unit.per_example)},
                         {"eval", ordered_json(job.eval)},
                         {"history", ToJson(job.history)},
                         {"perWorker", std::move(workers)},
                         {"perServer", std::move(servers)},
                         {"staleness", ToJson(MergeStaleness(replicas))},
                         {"failures", std::move(failures)},
                         {"restarts", std::move(restarts)},
                         {"redone", ToJson(job.redone)},
                         {"stragglers", ToJson(job.stragglers)},
                         {"parametersSha256", job.parameters_sha256},
                         {"version", fmt::format("{} ({})", TRAINYARD_VERSION, TRAINYARD_COMMIT)},
                         {"cpu", CpuName()}};
  if (!job.precision_reason.empty()) report["precisionReason"] = job.precision_reason;
  PutField(report, "firstLoss", job.first_loss);
  PutField(report, "lastLoss", job.last_loss);
  if (outcome.first_step > 0) report["firstStep"] = outcome.first_step;
  if (!job.warning.empty()) report["warning"] = job.warning;
  if (job.best) report["best"] = ToJson(*job.best);
  if (job.stopped_early) report["stoppedEarly"] = ToJson(*job.stopped_early);
  PutField(report, "evaluator", evaluator);
  if (job.all_reduce) report["allReduce"] = ToJson(*job.all_reduce);
  if (outcome.profile) report["profile"] = ToJson(*outcome.profile, kNodesInReport);
  return report.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::Status WriteReport(const std::string& dir, const JobOutcome& outcome, const std::vector<ReplicaReport>& replicas) {
  TY_RETURN_IF_ERROR(MakeDirectories(dir));
  return ReplaceFile(dir + "/report.json", MergeReport(outcome, replicas));
}

}  // namespace trainyard::engine
