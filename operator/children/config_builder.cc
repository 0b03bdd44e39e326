#include "operator/children/config_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "operator/children/child_meta.h"

namespace trainyard::control {

using nlohmann::json;
using nlohmann::ordered_json;

std::vector<std::string> Addresses(const TrainingJob& job, Role role) {
  std::vector<std::string> addresses;
  const int count = job.spec.Replicas(role);
  addresses.reserve(count);
  for (int i = 0; i < count; ++i) addresses.push_back(Address(job, {role, i}));
  return addresses;
}

namespace {

// `between`: host and number of slots.
std::string Hostfile(const TrainingJob& job, std::string_view between) {
  std::string text;
  const ReplicaSpec* workers = job.spec.Find(Role::kWorker);
  if (workers == nullptr) return text;
  const int slots = workers->gpus > 0 ? workers->gpus : 1;
  for (int i = 0; i < workers->replicas; ++i) text += fmt::format("{}{}{}\n", Host(job, {Role::kWorker, i}), between, slots);
  return text;
}

constexpr std::string_view kOpenMpi = " slots=";
constexpr std::string_view kHydra = ":";  // MPICH and Intel MPI

}  // namespace

std::string HostsHash(const TrainingJob& job) {
  const json lists = {Addresses(job, Role::kPs), Addresses(job, Role::kWorker), Address(job, ChiefOf(job)), Hostfile(job, kOpenMpi)};
  return ConfigMap::ContentHash({{"hosts", lists.dump()}}).substr(0, 16);
}

json BuildConfigData(const TrainingJob& job, int64_t epoch, const std::string& key) {
  const std::vector<std::string> ps = Addresses(job, Role::kPs);
  const std::vector<std::string> worker = Addresses(job, Role::kWorker);
  ordered_json cluster;  // in the order of the contract
  cluster["epoch"] = epoch;
  cluster["ps"] = ps;
  cluster["worker"] = worker;
  cluster["chief"] = Address(job, ChiefOf(job));
  // In no list, but the chief leaves the evaluation to it.
  if (const int evaluators = job.spec.Replicas(Role::kEvaluator); evaluators > 0) cluster["evaluators"] = evaluators;
  json data = {{"cluster.json", cluster.dump()},
               {"ps_hosts", fmt::format("{}", fmt::join(ps, ","))},
               {"worker_hosts", fmt::format("{}", fmt::join(worker, ","))},
               {"hostfile", Hostfile(job, kOpenMpi)},
               {"training.json", job.spec.training.empty() ? "{}" : job.spec.training}};
  if (job.spec.framework == Framework::kMpi) data["hostfile_hydra"] = Hostfile(job, kHydra);
  if (!key.empty()) data["key"] = key;
  return data;
}

bool HoldsHosts(const ConfigMap& config, const TrainingJob& job, int64_t epoch) {
  return config.content_hash == ConfigMap::ContentHash(BuildConfigData(job, epoch, config.job_key));
}

json BuildConfigMap(const TrainingJob& job, int64_t epoch, const std::string& key) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", ChildMeta(job, ConfigMapName(job), std::nullopt)},
          {"data", BuildConfigData(job, epoch, key)}};
}

}  // namespace trainyard::control
