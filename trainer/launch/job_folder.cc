#include "trainer/launch/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_join.h"
#include "trainer/base/file.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"
#include "trainer/job/output_folders.h"
#include "trainer/transport/job_key.h"

namespace trainyard::engine {
namespace {

// For the owner's eyes, from the first byte.
absl::Status WriteSecret(const std::string& path, const std::string& text) {
  std::error_code error;
  std::filesystem::remove(path, error);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return FileError(errno, "create", path);
  const ssize_t written = write(file, text.data(), text.size());
  const int reason = errno;
  close(file);
  return written == static_cast<ssize_t>(text.size()) ? absl::OkStatus() : FileError(written < 0 ? reason : ENOSPC, "write", path);
}

struct HostLists {
  std::vector<std::string> ps;
  std::vector<std::string> worker;
  std::string chief;
};

HostLists ListHosts(const std::vector<ReplicaId>& replicas, const std::vector<ReplicaPorts>& ports) {
  HostLists lists;
  for (size_t i = 0; i < replicas.size(); ++i) {
    const std::string host = fmt::format("127.0.0.1:{}", ports[i].port);
    switch (replicas[i].role) {
      case Role::kPs:
        lists.ps.push_back(host);
        break;
      case Role::kWorker:
        lists.worker.push_back(host);
        break;
      case Role::kChief:
        lists.chief = host;
        break;
      case Role::kEvaluator:
        break;  // in no cluster
    }
  }
  if (lists.chief.empty() && !lists.worker.empty()) lists.chief = lists.worker.front();
  return lists;
}

}  // namespace

absl::Status JobFolder::Prepare(const JobConfig& job, int processors, const std::vector<ReplicaId>& replicas,
                                const std::vector<ReplicaPorts>& ports) const {
  std::error_code error;
  for (const std::string& folder :
       {dir_ + "/config", dir_ + "/logs", dir_ + "/replicas", CheckpointFolder(dir_, job.training), SummaryFolder(dir_, job.training)}) {
    std::filesystem::create_directories(folder, error);
    if (error) return absl::UnavailableError(fmt::format("output folder '{}' cannot be made: {}", folder, error.message()));
  }
  const HostLists hosts = ListHosts(replicas, ports);
  nlohmann::json cluster = {{"epoch", 1}, {"ps", hosts.ps}, {"worker", hosts.worker}, {"chief", hosts.chief}};
  if (job.evaluator.replicas > 0) cluster["evaluators"] = job.evaluator.replicas;
  TY_RETURN_IF_ERROR(WriteFileDurably(dir_ + "/config/training.json", TrainingJsonFor(job, processors)));
  TY_RETURN_IF_ERROR(WriteFileDurably(dir_ + "/config/cluster.json", cluster.dump(2)));
  TY_ASSIGN_OR_RETURN(const JobKey key, JobKey::Random());
  TY_RETURN_IF_ERROR(WriteSecret(dir_ + "/config/key", key.ToText()));
  TY_RETURN_IF_ERROR(WriteFileDurably(dir_ + "/config/ps_hosts", absl::StrJoin(hosts.ps, ",")));
  return WriteFileDurably(dir_ + "/config/worker_hosts", absl::StrJoin(hosts.worker, ","));
}

std::map<std::string, std::string> JobFolder::Environment(const ReplicaId& id) const {
  return {{"TRAINYARD_ROLE", std::string(RoleName(id.role))},
          {"TRAINYARD_INDEX", fmt::format("{}", id.index)},
          {"TRAINYARD_CONFIG_DIR", dir_ + "/config"}};
}

std::string TrainingJsonFor(const JobConfig& job, int processors) {
  const int trainers = std::max(1, job.worker.replicas + job.chief.replicas + job.evaluator.replicas);
  nlohmann::json training = ParseJson(job.training_json);
  if (training.is_object() && job.training.threads == 0) training["resources"]["threads"] = std::max(1, processors / trainers);
  return training.dump(2);
}

}  // namespace trainyard::engine
