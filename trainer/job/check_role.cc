#include "trainer/job/check_role.h"

#include <fmt/format.h>

#include "trainer/base/counted.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kServers = "strategy: {parameterServer: {mode: sync}}";

}  // namespace

absl::Status CheckRole(const TrainingConfig& config, const ReplicaIdentity& identity) {
  using enum StrategyConfig::Kind;
  const StrategyConfig::Kind kind = config.strategy.kind;
  if (kind == kParameterServer) {
    const bool trains = identity.role == Role::kWorker || identity.role == Role::kChief;
    if (!trains || !identity.ps_hosts.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--ps_hosts: missing, expected at least one server, because the job has strategy parameterServer; start a server, or set "
        "strategy: {local: {}}");
  }
  const std::string_view name = kind == kLocal ? "local" : "allReduce";
  if (identity.role == Role::kPs) {
    return absl::InvalidArgumentError(fmt::format(
        "--job_name: found ps, expected worker, because the job has strategy {}, which has no servers; set {}", name, kServers));
  }
  if (kind != kLocal || identity.role == Role::kEvaluator || identity.trainer_count() <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--worker_hosts: found {}, expected 1, because the job has strategy local, which trains in one process; set {} or {}",
                  Counted(identity.trainer_count(), "worker"), kServers, "strategy: {allReduce: {}}"));
}

}  // namespace trainyard::engine
