#include "operator/children/framework_env.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

// Chief and workers are ranked, the chief first; nothing for other roles.
void AddPyTorch(const TrainingJob& job, const ReplicaId& id, EnvironmentList& env) {
  if (id.role != Role::kChief && id.role != Role::kWorker) return;
  const bool has_chief = job.spec.Replicas(Role::kChief) > 0;
  const int rank = id.role == Role::kWorker && has_chief ? id.index + 1 : id.index;
  const int world = job.spec.Replicas(Role::kWorker) + (has_chief ? 1 : 0);
  const std::string master = Host(job, ChiefOf(job));
  const std::string port = std::to_string(job.spec.network.port);
  const ReplicaSpec* spec = job.spec.Find(id.role);
  const int processes = spec != nullptr && spec->gpus > 0 ? spec->gpus : 1;
  env.emplace_back("MASTER_ADDR", master);
  env.emplace_back("MASTER_PORT", port);
  env.emplace_back("RANK", std::to_string(rank));
  env.emplace_back("WORLD_SIZE", std::to_string(world));
  env.emplace_back("PET_MASTER_ADDR", master);
  env.emplace_back("PET_MASTER_PORT", port);
  env.emplace_back("PET_NODE_RANK", std::to_string(rank));
  env.emplace_back("PET_NNODES", std::to_string(world));
  env.emplace_back("PET_NPROC_PER_NODE", std::to_string(processes));
}

void AddMxNet(const TrainingJob& job, const ReplicaId& id, EnvironmentList& env) {
  if (id.role == Role::kEvaluator) return;
  const char* role = id.role == Role::kChief ? "scheduler" : id.role == Role::kPs ? "server" : "worker";
  env.emplace_back("DMLC_ROLE", role);
  env.emplace_back("DMLC_PS_ROOT_URI", Host(job, ChiefOf(job)));
  env.emplace_back("DMLC_PS_ROOT_PORT", std::to_string(job.spec.network.port));
  env.emplace_back("DMLC_NUM_SERVER", std::to_string(job.spec.Replicas(Role::kPs)));
  env.emplace_back("DMLC_NUM_WORKER", std::to_string(job.spec.Replicas(Role::kWorker)));
  if (id.role == Role::kWorker) env.emplace_back("DMLC_WORKER_ID", std::to_string(id.index));
}

void AddMpi(const TrainingJob& job, const ReplicaId& id, EnvironmentList& env) {
  if (id != ChiefOf(job)) return;
  const std::string hostfile = fmt::format("{}/hostfile", kConfigDir);
  env.emplace_back("OMPI_MCA_orte_default_hostfile", hostfile);
  env.emplace_back("OMPI_MCA_orte_keep_fqdn_hostnames", "true");
  env.emplace_back("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10 -o StrictHostKeyChecking=no");
  env.emplace_back("HYDRA_HOST_FILE", hostfile);
  env.emplace_back("I_MPI_HYDRA_HOST_FILE", hostfile);
}

}  // namespace

EnvironmentList ReplicaEnvironment(const TrainingJob& job, const ReplicaId& id) {
  EnvironmentList env = {{"TRAINYARD_ROLE", std::string(Name(id.role))},
                         {"TRAINYARD_INDEX", std::to_string(id.index)},
                         {"TRAINYARD_CONFIG_DIR", std::string(kConfigDir)}};
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
      break;
    case Framework::kTrainyard:
      env.emplace_back("TRAINYARD_JOB_NAME", job.meta.name);
      env.emplace_back("TRAINYARD_JOB_UID", job.meta.uid);
      break;
    case Framework::kNone:
      break;
  }
  return env;
}

}  // namespace trainyard::control
