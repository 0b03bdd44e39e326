// The folder of one local run: what the replicas read (the same files as the operator's ConfigMap,
// docs/contract.md) and where they write.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/job/job_config.h"
#include "trainer/launch/supervisor.h"

namespace trainyard::engine {

// Where a replica of a local run listens, on 127.0.0.1.
struct ReplicaPorts {
  uint16_t port = 0;       // what the host lists name
  uint16_t http_port = 0;  // /progress, /metrics, /healthz
};

// <dir>/config is what TRAINYARD_CONFIG_DIR names; logs/, replicas/ and the folders of checkpoints
// and summaries (output_folders.h) are the output.
class JobFolder {
 public:
  explicit JobFolder(std::string dir) : dir_(std::move(dir)) {}

  // Makes the folders. Writes config/{training.json, cluster.json, ps_hosts, worker_hosts, key},
  // with a fresh key that only the owner may read. `replicas` and `ports` are parallel. An error
  // names the file. training.json is TrainingJsonFor(job, processors).
  absl::Status Prepare(const JobConfig& job, int processors, const std::vector<ReplicaId>& replicas,
                       const std::vector<ReplicaPorts>& ports) const;

  const std::string& dir() const { return dir_; }
  std::string LogPath(const ReplicaId& id) const { return dir_ + "/logs/" + Name(id) + ".log"; }
  // The environment of a pod of this replica.
  std::map<std::string, std::string> Environment(const ReplicaId& id) const;

 private:
  const std::string dir_;
};

// `spec.training` for replicas that share one machine: where resources.threads is 0 each trainer
// gets its share of `processors`, at least one.
std::string TrainingJsonFor(const JobConfig& job, int processors);

}  // namespace trainyard::engine
