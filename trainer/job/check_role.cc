#include "trainer/job/check_role.h"

#include <fmt/format.h>

#include "trainer/base/counted.h"
#include "trainer/job/strategy_roles.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kServers = "strategy: {parameterServer: {mode: sync}}";

}  // namespace

absl::Status CheckRole(const TrainingConfig& config, const ReplicaIdentity& identity) {
  const StrategyRoles roles = RolesOf(config.strategy.kind);
  if (identity.role == Role::kPs && !roles.servers()) {
    return absl::InvalidArgumentError(fmt::format(
        "--job_name: found ps, expected worker, because the job has strategy {}, which has no servers; set {}", roles.name, kServers));
  }
  const bool trains = identity.role == Role::kWorker || identity.role == Role::kChief;
  if (!trains) return absl::OkStatus();
  if (roles.servers() && identity.ps_hosts.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--ps_hosts: missing, expected at least one server, because the job has strategy {}; start a server, or set "
                    "strategy: {{local: {{}}}}",
                    roles.name));
  }
  if (roles.many_trainers || identity.trainer_count() <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--worker_hosts: found {}, expected 1, because the job has strategy {}, which trains in one process; set {} or {}",
                  Counted(identity.trainer_count(), "worker"), roles.name, kServers, "strategy: {allReduce: {}}"));
}

}  // namespace trainyard::engine
