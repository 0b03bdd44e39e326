#include "trainer/commands/train_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <memory>
#include <vector>

#include "trainer/base/clock.h"
#include "trainer/base/cpu_quota.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/thread_room.h"
#include "trainer/checkpoint/old_checkpoint.h"
#include "trainer/cli/command_info.h"
#include "trainer/commands/add_options.h"
#include "trainer/commands/make_backend.h"
#include "trainer/devices/driver_meter.h"
#include "trainer/job/check_role.h"
#include "trainer/job/exit_code.h"
#include "trainer/job/job_config.h"
#include "trainer/job/output_owner.h"
#include "trainer/job/replica_identity.h"
#include "trainer/launch/output_lock.h"
#include "trainer/report/termination_message.h"
#include "trainer/train/evaluator_role.h"
#include "trainer/train/server_role.h"
#include "trainer/train/stop_request.h"
#include "trainer/train/trainer.h"

namespace trainyard::engine {
namespace {

constexpr int kOwnThreads = 16;

struct TrainFlags {
  ReplicaFlags replica;
  std::string output = ".";
  int http_port = -1;   // -1: the replica's own port + 1, as the contract has it
  std::string backend;  // "": as the job's resources.devices say
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

// For the log, and for the job's status.
void TellError(const absl::Status& status) {
  LogError("{}", std::string(status.message()));
  const absl::Status left = LeaveTerminationMessage(kTerminationLog, std::string(status.message()));
  if (!left.ok()) LogWarning("{}", std::string(left.message()));
}

// The folder that the job's replicas share is the job's while they run; null outside a cluster.
absl::StatusOr<std::unique_ptr<OutputOwner>> ClaimOutput(const TrainFlags& flags, const ReplicaIdentity& identity, StopRequest& stop) {
  if (identity.job_uid.empty()) return nullptr;
  const auto wait = [&stop](absl::Duration duration) { return !stop.Await(duration); };
  return OutputOwner::Claim(
      {.output = flags.output, .job_name = identity.job_name, .job_uid = identity.job_uid, .chief = identity.is_chief()}, wait,
      [](const absl::Status& lost) {
        TellError(lost);
        FlushLog();
        _exit(1);  // whatever the replica still wrote would be the other job's
      });
}

// Two chiefs would write into each other's checkpoints. In a cluster the folder has an owner.
absl::StatusOr<std::optional<OutputLock>> LockOutput(const TrainFlags& flags, const ReplicaIdentity& identity) {
  if (!identity.job_uid.empty() || !identity.is_chief()) return std::nullopt;
  return OutputLock::Take(flags.output, LockHolder::kChief);
}

// Where the devices of this replica are. An evaluator has one, and the machine's GPUs are for those
// that train.
WantedDevices DevicesOf(const TrainingConfig& config, const ReplicaIdentity& identity) {
  const bool trains = identity.role != Role::kEvaluator;
  const int before = trains && identity.on_one_machine() ? identity.trainer_rank() * config.devices : 0;
  return {.request = config.on, .count = trains ? config.devices : 1, .before = before};
}

// A training goes on without it.
std::unique_ptr<GpuMeter> MeterOf(const DeviceChoice& place) {
  if (place.gpus.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<GpuMeter>> meter = OpenDriverMeter(place.DistinctGpus());
  if (meter.ok()) return *std::move(meter);
  LogWarning("memory and utilization of the GPUs are not recorded: {}", std::string(meter.status().message()));
  return nullptr;
}

absl::Status RunRole(const TrainFlags& flags, const ReplicaIdentity& identity, StopRequest& stop) {
  TY_ASSIGN_OR_RETURN(TrainingConfig config, ReadTrainingFile(identity.config_path, flags.overrides));
  TY_RETURN_IF_ERROR(CheckRole(config, identity));
  stop.SetGrace(config.timeouts.stop);
  config.evaluator = config.evaluator || identity.evaluators > 0;
  const int http_port = flags.http_port >= 0 ? flags.http_port : HttpPort(identity);
  if (identity.role == Role::kPs) {
    return RunServerRole({.identity = identity, .config = config, .output = flags.output, .http_port = http_port}, stop);
  }
  if (identity.is_chief()) TY_RETURN_IF_ERROR(CheckOldCheckpoint(flags.output, config));
  TY_ASSIGN_OR_RETURN(const BackendPlan plan, PlanBackends(flags.backend, DevicesOf(config, identity)));
  // An evaluator computes no gradients: there is little to win. It may lack the GPU that workers
  // have.
  const bool lacks_gpu = config.precision && IsOfGpus(*config.precision) && plan.devices.gpus.empty();
  if (identity.role == Role::kEvaluator && (!config.precision || lacks_gpu)) config.precision = Precision::kFloat32;
  const auto make_backend = [&](Precision precision) { return MakeBackend(plan, config.threads, precision); };
  TY_ASSIGN_OR_RETURN(const PrecisionChoice choice, ChoosePrecision(config, make_backend, [&stop] { return stop.requested(); }));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, make_backend(choice.precision));
  if (identity.role == Role::kEvaluator) {
    return RunEvaluatorRole({.identity = identity, .config = config, .output = flags.output, .http_port = http_port}, *backend, stop,
                            RealClock());
  }
  const std::unique_ptr<GpuMeter> gpus = MeterOf(plan.devices);
  std::vector<std::unique_ptr<Backend>> of_devices;
  WorkerBackends backends{.whole = *backend, .devices = {backend.get()}, .precision = choice, .place = plan.devices, .gpus = gpus.get()};
  if (config.devices > 1) {
    // Besides, each device has a thread that trains, one that updates and one that reads ahead.
    const int threads = config.threads > 0 ? config.threads : CpuQuota();
    TY_RETURN_IF_ERROR(CheckThreadRoom(kOwnThreads + threads + std::max(threads, config.devices) + 3 * config.devices));
    if (plan.devices.gpus.empty() && threads < config.devices)
      LogWarning("{} devices share {} threads: each takes one; set devices to {}", config.devices, threads, threads);
    TY_ASSIGN_OR_RETURN(of_devices, MakeDeviceBackends(plan, config.threads, config.devices, choice.precision));
    backends.devices.clear();
    for (const std::unique_ptr<Backend>& device : of_devices) backends.devices.push_back(device.get());
  }
  TY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Trainer> trainer,
      Trainer::Create({.identity = identity, .config = config, .output = flags.output, .http_port = http_port}, backends, RealClock()));
  return trainer->Run([&stop] { return stop.requested(); });
}

absl::Status RunReplica(const TrainFlags& flags, StopRequest& stop) {
  // gRPC ends the process where it gets no thread. So as many threads as it and the kernels will
  // start are tried first.
  TY_RETURN_IF_ERROR(CheckThreadRoom(kOwnThreads + 2 * CpuQuota()));
  TY_ASSIGN_OR_RETURN(const ReplicaIdentity identity, ReadReplicaIdentity(flags.replica, ProcessEnvironment()));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<OutputOwner> owner, ClaimOutput(flags, identity, stop));
  TY_ASSIGN_OR_RETURN(const std::optional<OutputLock> lock, LockOutput(flags, identity));
  TY_RETURN_IF_ERROR(RunRole(flags, identity, stop));
  return owner != nullptr && identity.is_chief() ? owner->End() : absl::OkStatus();
}

int Train(const TrainFlags& flags) {
  StopRequest stop;
  const absl::Status status = RunReplica(flags, stop);
  if (status.ok()) return 0;
  if (stop.requested()) {
    LogInfo("{}", std::string(status.message()));
    return kStoppedExitCode;
  }
  TellError(status);
  return ExitCodeOf(status);
}

}  // namespace

void AddTrainCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command =
      app.add_subcommand("train", "run one replica of a job, named by its environment or by the flags of the TensorFlow tutorials");
  ReplicaFlags& replica = flags->replica;
  OneOf(command->add_option("--job_name", replica.job_name, "role (else TRAINYARD_ROLE)"), {"worker", "ps", "chief", "evaluator"});
  command->add_option("--task_index", replica.task_index, "index within the role (else TRAINYARD_INDEX)");
  command->add_option("--ps_hosts", replica.ps_hosts, "servers as host:port,host:port (else from TRAINYARD_CONFIG_DIR)")
      ->type_name("HOSTS");
  command->add_option("--worker_hosts", replica.worker_hosts, "workers as host:port,host:port (else from TRAINYARD_CONFIG_DIR)")
      ->type_name("HOSTS");
  command->add_option("--config", replica.config, "TrainingJob file or training.json (else from TRAINYARD_CONFIG_DIR)")->type_name("FILE");
  command->add_option("--key", replica.key, "file with the job's key, the same for all replicas (else from TRAINYARD_CONFIG_DIR)")
      ->type_name("FILE");
  command->add_option("--output", flags->output, "folder for checkpoints, summaries, traces and the replica's report")
      ->type_name("DIR")
      ->capture_default_str();
  InRange(command->add_option("--http_port", flags->http_port,
                              "port of /progress, /metrics and /healthz (without it the replica's own port + 1; 0: any)"),
          0, kLargestPort);
  AddBackendOption(*command, flags->backend);
  AddSetOption(*command, flags->overrides);
  command->footer(
      "trainyard-trainer train --config job.yaml --output out             # one process, strategy local\n"
      "trainyard-trainer train --job_name=ps --task_index=0 --ps_hosts=localhost:5000 --worker_hosts=localhost:5010 --config job.yaml\n"
      "trainyard-trainer train                                            # in a pod: all from its environment");
  command->callback([flags, &exit_code] { exit_code = Train(*flags); });
}

}  // namespace trainyard::engine
