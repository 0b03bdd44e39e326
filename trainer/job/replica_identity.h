// The place of this process in its job, from flags and environment. Nothing else in the trainer
// reads the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/transport/job_key.h"
#include "trainer/transport/tls.h"

namespace trainyard::engine {

enum class Role : uint8_t { kChief, kWorker, kPs, kEvaluator };

// "chief", "worker", "ps", "evaluator"
std::string_view RoleName(Role role);

// "chief-0", "worker-2": the replica of a trainer's rank. `own_chief`: rank 0 is a chief replica,
// and the workers follow it.
std::string TrainerName(int rank, bool own_chief);

// Flags as given; absent ones are taken from the environment and the config folder.
struct ReplicaFlags {
  std::optional<std::string> job_name;      // --job_name: a role's name
  std::optional<int> task_index;            // --task_index
  std::optional<std::string> ps_hosts;      // --ps_hosts: "host:port,host:port"
  std::optional<std::string> worker_hosts;  // --worker_hosts
  std::optional<std::string> config;        // --config: a training.json or a TrainingJob file
  std::optional<std::string> key;           // --key: a file with the job's key
};

// Without any flag and without TRAINYARD_ROLE this is worker 0 of one worker and no servers.
struct ReplicaIdentity {
  Role role = Role::kWorker;
  int index = 0;
  std::vector<std::string> ps_hosts;      // "host:port", in index order
  std::vector<std::string> worker_hosts;  // without the chief
  std::string chief_host;                 // "": worker 0 is the chief
  int evaluators = 0;                     // replicas that evaluate, which are in no list; from cluster.json
  int64_t epoch = 0;                      // of the host lists, from cluster.json; 0 without one
  std::string config_path;                // the training.json or TrainingJob file to read
  std::string job_name;                   // the job in the cluster; both empty outside
  std::string job_uid;
  std::string node;             // the machine: TRAINYARD_NODE, or else its host name
  std::string key_path;         // of the file that `key` came from
  std::optional<JobKey> key;    // from the file `key` of the config folder; none: streams prove nothing
  std::optional<TlsFiles> tls;  // from its folder `tls`; none: streams are plain text

  // A chief of its own trains too: it is rank 0 of the trainers and the workers follow it.
  int trainer_count() const { return static_cast<int>(worker_hosts.size()) + (chief_host.empty() ? 0 : 1); }
  int trainer_rank() const { return role == Role::kChief || chief_host.empty() ? index : index + 1; }
  // All hosts are loopback addresses, or there are none: nothing needs to listen for other
  // machines.
  bool on_one_machine() const;
  // The address at which this replica listens: that of this machine alone, or all of its
  // interfaces.
  std::string listen_host() const { return on_one_machine() ? "127.0.0.1" : "0.0.0.0"; }
  bool is_chief() const { return role == Role::kChief || (role == Role::kWorker && index == 0 && chief_host.empty()); }
};

// Reads flags, then TRAINYARD_ROLE, TRAINYARD_INDEX, TRAINYARD_CONFIG_DIR (cluster.json, or
// ps_hosts and worker_hosts; training.json; key; tls/) and TRAINYARD_NODE through `environment`
// (name → value, or null). A flag wins over what the environment says of the same thing.
// InvalidArgument lists all mistakes.
using Environment = std::function<const char*(const char* name)>;
absl::StatusOr<ReplicaIdentity> ReadReplicaIdentity(const ReplicaFlags& flags, const Environment& environment);

// The process's own environment.
Environment ProcessEnvironment();

}  // namespace trainyard::engine
