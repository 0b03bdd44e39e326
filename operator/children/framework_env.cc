#include "operator/children/framework_env.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "operator/children/config_builder.h"

namespace trainyard::control {
namespace {

using nlohmann::ordered_json;

// {"cluster":{"chief":[…],"ps":[…],"worker":[…]},"task":{"type":"worker","index":0}}; roles without
// replicas are left out. The sparse form names the replica itself and, for a worker, the servers:
// {"sparseCluster":{"worker":{"3":"…"},"ps":[…]},"task":…}.
std::string TfConfig(const TrainingJob& job, const ReplicaId& id) {
  ordered_json config;
  const bool sparse = job.spec.network.host_list == HostList::kSparse && (id.role == Role::kWorker || id.role == Role::kPs);
  if (sparse) {
    ordered_json cluster = ordered_json::object();
    if (id.role == Role::kWorker) {
      cluster["worker"] = {{std::to_string(id.index), Address(job, id)}};
      cluster["ps"] = Addresses(job, Role::kPs);
    } else {
      cluster["worker"] = ordered_json::object();
      cluster["ps"] = {Address(job, id)};
    }
    config["sparseCluster"] = std::move(cluster);
  } else {
    ordered_json cluster = ordered_json::object();
    for (const Role role : {Role::kChief, Role::kPs, Role::kWorker}) {
      if (job.spec.Replicas(role) > 0) cluster[std::string(Name(role))] = Addresses(job, role);
    }
    config["cluster"] = std::move(cluster);
  }
  config["task"]["type"] = Name(id.role);
  config["task"]["index"] = id.index;
  return config.dump();
}

// Chief and workers are ranked, the chief first.
struct Rank {
  std::string rank;
  std::string world;
};

// Nothing for other roles.
std::optional<Rank> RankOf(const TrainingJob& job, const ReplicaId& id) {
  if (id.role != Role::kChief && id.role != Role::kWorker) return std::nullopt;
  const int before = id.role == Role::kWorker ? job.spec.Replicas(Role::kChief) : 0;
  return Rank{.rank = std::to_string(before + id.index),
              .world = std::to_string(job.spec.Replicas(Role::kChief) + job.spec.Replicas(Role::kWorker))};
}

std::string ProcessesPerNode(const TrainingJob& job, Role role) {
  const ReplicaSpec* spec = job.spec.Find(role);
  return std::to_string(spec != nullptr && spec->gpus > 0 ? spec->gpus : 1);
}

// What torchrun reads to find its peers anew whenever one comes or goes. Worker 0 holds the
// rendezvous, and is told so: it knows itself by another name than that of its service.
// Source: torch.distributed.run, torch.distributed.elastic.rendezvous.c10d_rendezvous_backend.
void AddElastic(const TrainingJob& job, const ReplicaId& id, EnvironmentList& env) {
  if (id.role != Role::kWorker) return;
  env.emplace_back("PET_RDZV_BACKEND", "c10d");
  env.emplace_back("PET_RDZV_ENDPOINT", Address(job, {Role::kWorker, 0}));
  env.emplace_back("PET_RDZV_ID", job.meta.uid);
  env.emplace_back("PET_RDZV_CONF", id.index == 0 ? "is_host=true" : "is_host=false");
  env.emplace_back("PET_NNODES", fmt::format("{}:{}", job.spec.elastic->min_workers, job.spec.elastic->max_workers));
  env.emplace_back("PET_NPROC_PER_NODE", ProcessesPerNode(job, id.role));
  env.emplace_back("PET_MAX_RESTARTS", std::to_string(job.spec.run_policy.backoff_limit));
}

void AddPyTorch(const TrainingJob& job, const ReplicaId& id, EnvironmentList& env) {
  if (job.spec.elastic) return AddElastic(job, id, env);
  const std::optional<Rank> rank = RankOf(job, id);
  if (!rank) return;
  const std::string master = Host(job, ChiefOf(job));
  const std::string port = std::to_string(job.spec.network.port);
  env.emplace_back("MASTER_ADDR", master);
  env.emplace_back("MASTER_PORT", port);
  env.emplace_back("RANK", rank->rank);
  env.emplace_back("WORLD_SIZE", rank->world);
  env.emplace_back("PET_MASTER_ADDR", master);
  env.emplace_back("PET_MASTER_PORT", port);
  env.emplace_back("PET_NODE_RANK", rank->rank);
  env.emplace_back("PET_NNODES", rank->world);
  env.emplace_back("PET_NPROC_PER_NODE", ProcessesPerNode(job, id.role));
}

// jax.distributed.initialize reads the address itself; a program passes it the other two.
void AddJax(const TrainingJob& job, const ReplicaId& id, EnvironmentList& env) {
  const std::optional<Rank> rank = RankOf(job, id);
  if (!rank) return;
  env.emplace_back("JAX_COORDINATOR_ADDRESS", Address(job, ChiefOf(job)));
  env.emplace_back("JAX_PROCESS_ID", rank->rank);
  env.emplace_back("JAX_NUM_PROCESSES", rank->world);
}

// The names of xgboost.collective.init; the tracker runs beside rank 0.
void AddXgBoost(const TrainingJob& job, const ReplicaId& id, EnvironmentList& env) {
  const std::optional<Rank> rank = RankOf(job, id);
  if (!rank) return;
  env.emplace_back("DMLC_TRACKER_URI", Host(job, ChiefOf(job)));
  env.emplace_back("DMLC_TRACKER_PORT", std::to_string(job.spec.network.port));
  env.emplace_back("DMLC_TASK_ID", rank->rank);
  env.emplace_back("DMLC_NUM_WORKER", rank->world);
}

void AddMxNet(const TrainingJob& job, const ReplicaId& id, EnvironmentList& env) {
  if (id.role == Role::kEvaluator) return;
  const char* role = id.role == Role::kChief ? "scheduler" : id.role == Role::kPs ? "server" : "worker";
  env.emplace_back("DMLC_ROLE", role);
  env.emplace_back("DMLC_USE_KUBERNETES", "1");  // the scheduler listens on all addresses: it cannot bind a name
  env.emplace_back("DMLC_PS_ROOT_URI", Host(job, ChiefOf(job)));
  env.emplace_back("DMLC_PS_ROOT_PORT", std::to_string(job.spec.network.port));
  env.emplace_back("DMLC_NUM_SERVER", std::to_string(job.spec.Replicas(Role::kPs)));
  env.emplace_back("DMLC_NUM_WORKER", std::to_string(job.spec.Replicas(Role::kWorker)));
  if (id.role == Role::kWorker) env.emplace_back("DMLC_WORKER_ID", std::to_string(id.index));
}

void AddMpi(const TrainingJob& job, const ReplicaId& id, EnvironmentList& env) {
  if (id != ChiefOf(job)) return;
  const std::string ssh = "-o ConnectionAttempts=10 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR";
  env.emplace_back("OMPI_MCA_orte_default_hostfile", fmt::format("{}/hostfile", kConfigDir));
  env.emplace_back("OMPI_MCA_orte_keep_fqdn_hostnames", "true");
  env.emplace_back("OMPI_MCA_plm_rsh_args", ssh);
  const std::string hydra = fmt::format("{}/hostfile_hydra", kConfigDir);
  env.emplace_back("HYDRA_HOST_FILE", hydra);
  env.emplace_back("HYDRA_LAUNCHER_EXTRA_ARGS", ssh);
  env.emplace_back("I_MPI_HYDRA_HOST_FILE", hydra);
  env.emplace_back("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", ssh);
}

// An image made for CUDA says NVIDIA_VISIBLE_DEVICES=all. Where NVIDIA's runtime is the node's
// default, a container of it that asks for no device would see all GPUs of its node, those of other
// pods among them. Replicas with a device are left out: this would win over what the device plugin
// says.
// https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
void HideGpus(const TrainingJob& job, const ReplicaId& id, EnvironmentList& env) {
  const ReplicaSpec* replica = job.spec.Find(id.role);
  if (replica == nullptr || !replica->asks_for_device) env.emplace_back("NVIDIA_VISIBLE_DEVICES", "void");
}

}  // namespace

EnvironmentList ReplicaEnvironment(const TrainingJob& job, const ReplicaId& id) {
  EnvironmentList env = {{"TRAINYARD_ROLE", std::string(Name(id.role))},
                         {"TRAINYARD_INDEX", std::to_string(id.index)},
                         {"TRAINYARD_CONFIG_DIR", std::string(kConfigDir)}};
  if (job.spec.network.progress_port) env.emplace_back("TRAINYARD_PROGRESS_PORT", std::to_string(*job.spec.network.progress_port));
  switch (job.spec.framework) {
    case Framework::kTensorFlow:
      env.emplace_back("TF_CONFIG", TfConfig(job, id));
      break;
    case Framework::kPyTorch:
      AddPyTorch(job, id, env);
      break;
    case Framework::kMxNet:
      AddMxNet(job, id, env);
      break;
    case Framework::kMpi:
      AddMpi(job, id, env);
      if (id == ChiefOf(job)) HideGpus(job, id, env);
      break;
    case Framework::kJax:
      AddJax(job, id, env);
      break;
    case Framework::kXgBoost:
      AddXgBoost(job, id, env);
      break;
    case Framework::kTrainyard:
      env.emplace_back("TRAINYARD_JOB_NAME", job.meta.name);
      env.emplace_back("TRAINYARD_JOB_UID", job.meta.uid);
      HideGpus(job, id, env);
      break;
    case Framework::kNone:
      break;
  }
  return env;
}

}  // namespace trainyard::control
