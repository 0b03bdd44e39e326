#include "trainer/train/train_command.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>

#include "trainer/base/clock.h"
#include "trainer/base/status_macros.h"
#include "trainer/train/evaluator_role.h"
#include "trainer/train/job_config.h"
#include "trainer/train/make_backend.h"
#include "trainer/train/replica_identity.h"
#include "trainer/train/server_role.h"
#include "trainer/train/stop_request.h"
#include "trainer/train/trainer.h"

namespace trainyard::engine {
namespace {

struct TrainFlags {
  ReplicaFlags replica;
  std::string output = ".";
  int http_port = -1;  // -1: the replica's own port + 1, as the contract has it
  std::string backend = "cpu";
  std::vector<std::string> overrides;
};

// The port after the one in the host lists; any free one for a replica that is in none.
int HttpPort(const ReplicaIdentity& identity) {
  const auto after = [](const std::string& host) {
    const std::string_view port = std::string_view(host).substr(host.rfind(':') + 1);
    int number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    return error == std::errc() ? number + 1 : 0;
  };
  const auto index = static_cast<size_t>(identity.index);
  if (identity.role == Role::kPs && index < identity.ps_hosts.size()) return after(identity.ps_hosts[index]);
  if (identity.role == Role::kChief && !identity.chief_host.empty()) return after(identity.chief_host);
  if (identity.role == Role::kWorker && index < identity.worker_hosts.size()) return after(identity.worker_hosts[index]);
  // In a cluster all replicas have one port, each on an address of its own.
  const bool in_cluster = identity.epoch > 0;
  if (identity.role == Role::kEvaluator && in_cluster && !identity.chief_host.empty()) return after(identity.chief_host);
  if (identity.role == Role::kEvaluator && in_cluster && !identity.worker_hosts.empty()) return after(identity.worker_hosts[0]);
  return 0;
}

absl::Status RunReplica(const TrainFlags& flags, StopRequest& stop) {
  TY_ASSIGN_OR_RETURN(const ReplicaIdentity identity, ReadReplicaIdentity(flags.replica, ProcessEnvironment()));
  TY_ASSIGN_OR_RETURN(TrainingConfig config, ReadTrainingFile(identity.config_path, flags.overrides));
  config.evaluator = config.evaluator || identity.evaluators > 0;
  const int http_port = flags.http_port >= 0 ? flags.http_port : HttpPort(identity);
  if (identity.role == Role::kPs) {
    return RunServerRole({.identity = identity, .config = config, .output = flags.output, .http_port = http_port}, stop);
  }
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeBackend(flags.backend, config.threads));
  if (identity.role == Role::kEvaluator) {
    return RunEvaluatorRole({.identity = identity, .config = config, .output = flags.output, .http_port = http_port}, *backend, stop,
                            RealClock());
  }
  TY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Trainer> trainer,
      Trainer::Create({.identity = identity, .config = config, .output = flags.output, .http_port = http_port}, *backend, RealClock()));
  return trainer->Run([&stop] { return stop.requested(); });
}

int Train(const TrainFlags& flags) {
  StopRequest stop;
  const absl::Status status = RunReplica(flags, stop);
  if (status.ok()) return 0;
  if (stop.requested()) {
    spdlog::info("{}", std::string(status.message()));
    return kStoppedExitCode;
  }
  spdlog::error("{}", std::string(status.message()));
  return 1;
}

}  // namespace

void AddTrainCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "run one replica of a job: by environment, or by the flags of the TensorFlow tutorials");
  ReplicaFlags& replica = flags->replica;
  command->add_option("--job_name", replica.job_name, "role: worker, ps, chief or evaluator (else TRAINYARD_ROLE)");
  command->add_option("--task_index", replica.task_index, "index within the role (else TRAINYARD_INDEX)");
  command->add_option("--ps_hosts", replica.ps_hosts, "servers as host:port,host:port (else from TRAINYARD_CONFIG_DIR)");
  command->add_option("--worker_hosts", replica.worker_hosts, "workers as host:port,host:port (else from TRAINYARD_CONFIG_DIR)");
  command->add_option("--config", replica.config, "TrainingJob file or training.json (else from TRAINYARD_CONFIG_DIR)");
  command->add_option("--output", flags->output, "folder for checkpoints, summaries, traces and the replica's report")
      ->capture_default_str();
  command->add_option("--http_port", flags->http_port,
                      "port of /progress, /metrics and /healthz (default: the replica's own port + 1; 0: any)");
  command->add_option("--backend", flags->backend, "cpu, or reference (slow and plain: the oracle)")->capture_default_str();
  command->add_option("--set", flags->overrides, "change a field before anything is checked: path=value")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command->callback([flags, &exit_code] { exit_code = Train(*flags); });
}

}  // namespace trainyard::engine
