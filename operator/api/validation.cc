#include "operator/api/validation.h"

#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "operator/api/core.h"
#include "operator/api/json_read.h"
#include "operator/api/template_validation.h"
#include "operator/api/text.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr size_t kMaxName = 63;                // of a pod's hostname and of a service
constexpr size_t kMaxConfigBytes = 1'000'000;  // the API server refuses ConfigMaps over 1 MiB

bool IsServiceName(std::string_view name) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.empty() || !lower(name.front()) || name.back() == '-') return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return lower(c) || digit(c) || c == '-'; });
}

// Collects errors in the order of the checks.
class Validator {
 public:
  explicit Validator(const TrainingJob& job) : job_(job), errors_(job.problems) {}

  std::vector<FieldError> Run() {
    CheckName();
    CheckRoles();
    CheckFramework();
    for (const auto& [role, replica] : job_.spec.replicas) CheckReplica(role, replica);
    CheckTraining();
    CheckRunPolicy();
    CheckStorage();
    CheckServe();
    return std::move(errors_);
  }

 private:
  void Add(std::string path, std::string message) { errors_.push_back({std::move(path), std::move(message)}); }

  void CheckName() {
    const std::string& name = job_.meta.name;
    if (!IsServiceName(name)) {
      Add("metadata.name",
          fmt::format(
              "found \"{}\", expected lower-case letters, digits and -, starting with a letter, because services are named after it",
              name));
    }
    std::string longest = name + "-cluster";
    for (const auto& [role, replica] : job_.spec.replicas) {
      if (replica.replicas == 0) continue;
      const std::string child = fmt::format("{}-{}-{}", name, Name(role), replica.replicas - 1);
      if (child.size() > longest.size()) longest = child;
    }
    if (longest.size() > kMaxName) {
      Add("metadata.name",
          fmt::format("found \"{}\", whose longest child name {} has {} characters, expected at most {}; choose a name that is {} shorter",
                      name, longest, longest.size(), kMaxName, longest.size() - kMaxName));
    }
  }

  void CheckRoles() {
    if (job_.spec.Replicas(Role::kWorker) == 0 && job_.spec.Replicas(Role::kChief) == 0) {
      Add("spec.worker.replicas", "found no worker and no chief, expected at least one; set worker.replicas");
    }
    size_t bytes = job_.spec.training.size();
    for (const auto& [role, replica] : job_.spec.replicas) {
      // Each address stands in up to three files.
      const size_t address = job_.meta.name.size() * 2 + job_.meta.name_space.size() + job_.spec.network.cluster_domain.size() + 40;
      bytes += static_cast<size_t>(replica.replicas) * address * 3;
    }
    if (bytes > kMaxConfigBytes) {
      Add("spec.worker.replicas",
          fmt::format("host lists and training need about {} bytes, but a ConfigMap holds {}; use fewer replicas or a shorter name", bytes,
                      kMaxConfigBytes));
    }
  }

  void CheckFramework() {
    if (job_.spec.network.tls && job_.spec.framework != Framework::kTrainyard) {
      Add("spec.network.tls", fmt::format("found true with framework {}, which does not read the job's certificates; expected false",
                                          Name(job_.spec.framework)));
    }
    const Framework framework = job_.spec.framework;
    if (framework == Framework::kMxNet && job_.spec.Replicas(Role::kChief) == 0) {
      Add("spec.chief", "found none, but MXNet needs a chief, which runs the scheduler; add chief: {replicas: 1}");
    }
    if (const int servers = job_.spec.Replicas(Role::kPs); servers > 0 && HasNoServers(framework)) {
      Add("spec.ps.replicas",
          fmt::format("found {}, but framework {} has no parameter servers, and its replicas would wait for them; remove ps", servers,
                      Name(framework)));
    }
    const Network& network = job_.spec.network;
    if (framework == Framework::kTrainyard && network.progress_port) {
      Add("spec.network.progressPort",
          fmt::format("found {}, but the Trainyard trainer answers on network.port + 1; remove it", *network.progress_port));
    } else if (network.progress_port == network.port) {
      Add("spec.network.progressPort",
          fmt::format("found {}, which is network.port, where the framework listens; choose another", network.port));
    }
    CheckElastic();
    if (framework != Framework::kTrainyard && !job_.spec.training.empty()) {
      Add("spec.training", fmt::format("is read by framework Trainyard only, found framework {}; remove it", Name(framework)));
    }
  }

  static bool HasNoServers(Framework framework) {
    return framework == Framework::kPyTorch || framework == Framework::kMpi || framework == Framework::kJax ||
           framework == Framework::kXgBoost;
  }

  void CheckElastic() {
    if (!job_.spec.elastic) return;
    const auto [least, most] = *job_.spec.elastic;
    if (job_.spec.framework != Framework::kPyTorch) {
      Add("spec.elastic", fmt::format("is for torchrun, found framework {}; remove it", Name(job_.spec.framework)));
    }
    if (job_.spec.Replicas(Role::kChief) > 0) {
      Add("spec.elastic", "found a chief, but worker 0 holds the rendezvous of an elastic job; remove chief");
    }
    const int workers = job_.spec.Replicas(Role::kWorker);
    if (least > most) {
      Add("spec.elastic", fmt::format("found minWorkers {} above maxWorkers {}; exchange them, or raise maxWorkers", least, most));
    } else if (least > workers || workers > most) {
      Add("spec.worker.replicas",
          fmt::format("found {}, expected {} to {}, the numbers in spec.elastic; choose a number between them", workers, least, most));
    }
  }

  void CheckReplica(Role role, const ReplicaSpec& replica) {
    const std::string path = fmt::format("spec.{}", Name(role));
    if (!replica.pod_template.empty()) return CheckTemplate(job_.spec, role, errors_);
    if (job_.spec.image.empty() && replica.replicas > 0) {
      Add("spec.image", fmt::format("found none, but {} has no template that names an image; set it", path));
    }
  }

  void CheckTraining() {
    if (job_.spec.framework != Framework::kTrainyard || job_.spec.training.empty()) return;
    const json training = json::parse(job_.spec.training, nullptr, false);
    const bool epochs = json_read::Find(training, "epochs") != nullptr;
    const bool steps = json_read::Find(training, "steps") != nullptr;
    if (epochs == steps)
      Add("spec.training", fmt::format("found {} epochs and steps, expected exactly one of them", epochs ? "both" : "neither"));
    if (json_read::Find(json_read::Get(training, "strategy"), "parameterServer") != nullptr && job_.spec.Replicas(Role::kPs) == 0) {
      Add("spec.ps.replicas", "found none, but training.strategy.parameterServer needs at least one; set ps.replicas");
    }
    CheckDevices(training);
    CheckLocal(training);
    if (json_read::Find(json_read::Get(training, "strategy"), "allReduce") == nullptr) return;
    if (const int servers = job_.spec.Replicas(Role::kPs); servers > 0) {
      Add("spec.ps.replicas", fmt::format("found {}, but training.strategy.allReduce trains without servers; remove ps", servers));
    }
    if (job_.spec.Replicas(Role::kChief) > 0) {
      Add("spec.chief.replicas", "found 1, but training.strategy.allReduce has worker 0 as its chief; remove chief");
    }
  }

  void CheckLocal(const json& training) {
    const json& strategy = json_read::Get(training, "strategy");
    if (json_read::Find(strategy, "parameterServer") != nullptr || json_read::Find(strategy, "allReduce") != nullptr) return;
    if (const int servers = job_.spec.Replicas(Role::kPs); servers > 0) {
      Add("spec.ps.replicas",
          fmt::format("found {}, but training.strategy local trains in one worker, without servers; set training.strategy.parameterServer, "
                      "or remove ps",
                      servers));
    }
    const int workers = job_.spec.Replicas(Role::kWorker);
    const int chiefs = job_.spec.Replicas(Role::kChief);
    if (workers + chiefs < 2) return;
    Add("spec.worker.replicas",
        fmt::format("found {}{}, but training.strategy local trains in one worker; set training.strategy.parameterServer with ps, or "
                    "training.strategy.allReduce, or keep one of worker and chief",
                    workers, chiefs > 0 ? " beside a chief" : ""));
  }

  // Synchronous workers add up what their devices have added up (docs/collectives.md).
  void CheckDevices(const json& training) {
    const json& strategy = json_read::Get(training, "strategy");
    const bool sync = json_read::String(json_read::Get(strategy, "parameterServer"), "mode") == "sync";
    if (!sync && json_read::Find(strategy, "allReduce") == nullptr) return;
    const int workers = job_.spec.Replicas(Role::kWorker) + job_.spec.Replicas(Role::kChief);
    const int devices = json_read::Int(training, "devices", 1);
    if (workers < 2 || devices < 1 || std::has_single_bit(static_cast<unsigned>(devices))) return;
    Add("spec.training.devices", fmt::format("found {}, but {} workers add their gradients; take a power of two", devices, workers));
  }

  void CheckRunPolicy() {
    const RunPolicy& policy = job_.spec.run_policy;
    if (policy.success_policy == SuccessPolicy::kAllWorkers && job_.spec.Replicas(Role::kWorker) == 0) {
      Add("spec.runPolicy.successPolicy", "found AllWorkers in a job without workers; set worker.replicas or use Chief");
    }
    if (policy.success_policy == SuccessPolicy::kAllWorkers && job_.spec.framework == Framework::kMpi) {
      Add("spec.runPolicy.successPolicy", "found AllWorkers, but workers of framework MPI run sshd, which does not end; use Chief");
    }
    const auto by_exit_code = [](const auto& each) { return each.second.restart_policy == RestartPolicy::kExitCode; };
    if (!policy.exit_codes.empty() && std::ranges::none_of(job_.spec.replicas, by_exit_code)) {
      Add("spec.runPolicy.exitCodes",
          "found rules, but no role has restartPolicy ExitCode, with which they are asked; set worker.restartPolicy: ExitCode, or use "
          "podFailurePolicy");
    }
    CheckNewPods();
    for (size_t i = 0; i < policy.failure_rules.size(); ++i) {
      CheckFailureRule(fmt::format("spec.runPolicy.podFailurePolicy.rules[{}]", i), policy.failure_rules[i]);
    }
    for (size_t i = 0; i < policy.exit_codes.size(); ++i) {
      const ExitCodeRule& rule = policy.exit_codes[i];
      if (rule.from > rule.to) {
        Add(fmt::format("spec.runPolicy.exitCodes[{}]", i),
            fmt::format("found {}-{}, expected from not greater than to", rule.from, rule.to));
      }
    }
    CheckKueue();
    if (policy.scheduling.placement == Placement::kExclusive && policy.scheduling.topology_key.empty()) {
      Add("spec.runPolicy.scheduling.placement",
          "found Exclusive without topologyKey; set topologyKey to the label of nodes that the job has for itself, as "
          "kubernetes.io/hostname");
    }
    const int total = job_.spec.AllReplicas();
    if (policy.scheduling.gang != Gang::kNone && policy.scheduling.min_available.value_or(1) > total) {
      Add("spec.runPolicy.scheduling.minAvailable",
          fmt::format("found {}, but the job has {}; lower it", *policy.scheduling.min_available, Counted(total, "replica")));
    }
  }

  // The kubelet restarts a container in its pod, on its node.
  void CheckNewPods() {
    const RunPolicy& policy = job_.spec.run_policy;
    for (const auto& [role, replica] : job_.spec.replicas) {
      if (replica.restart_policy != RestartPolicy::kAlways) continue;
      const std::string path = fmt::format("spec.{}.restartPolicy", Name(role));
      if (policy.restart_scope == RestartScope::kJob && role != Role::kEvaluator) {
        Add(path, "found Always, by which the kubelet restarts one replica alone, but runPolicy.restartScope is Job; use OnFailure");
      } else if (!policy.failure_rules.empty()) {
        Add(path,
            "found Always, by which the kubelet restarts a replica before rules can be asked, but there is a runPolicy.podFailurePolicy; "
            "use OnFailure");
      } else if (policy.avoid_failed_nodes) {
        Add(path,
            "found Always, by which the kubelet restarts a replica on its node, but runPolicy.avoidFailedNodes is true; use OnFailure");
      }
    }
  }

  void CheckFailureRule(const std::string& path, const PodFailureRule& rule) {
    const bool both = rule.exit_codes && !rule.conditions.empty();
    if (both || (!rule.exit_codes && rule.conditions.empty())) {
      Add(path, fmt::format("found {} onExitCodes and onPodConditions, expected exactly one of them", both ? "both" : "neither"));
    }
    if (rule.exit_codes && rule.exit_codes->values.empty()) Add(path + ".onExitCodes.values", "found none; name exit codes");
    for (size_t i = 0; i < rule.conditions.size(); ++i) {
      const std::string& type = rule.conditions[i].type;
      if (!IsUsualCondition(type)) continue;
      Add(fmt::format("{}.onPodConditions[{}].type", path, i),
          fmt::format("found {}, which every pod has; name a condition that tells why a pod ended, as DisruptionTarget", type));
    }
  }

  // Kueue admits a group of so many pods, and deletes the pods beyond them. Replicas that all start
  // again make a new group.
  void CheckKueue() {
    const RunPolicy& policy = job_.spec.run_policy;
    if (policy.restart_scope == RestartScope::kJob) return;
    if (policy.scheduling.kueue_queue.empty() || policy.suspend || !job_.status.start_time || job_.status.Finished()) return;
    for (const auto& [role, replica] : job_.spec.replicas) {
      const auto accepted = job_.status.replica_statuses.find(role);
      if (accepted == job_.status.replica_statuses.end() || accepted->second.desired == replica.replicas) continue;
      Add(fmt::format("spec.{}.replicas", Name(role)),
          fmt::format("found {}, but the group of its pods in queue {} of Kueue has {}, a number that cannot change; set "
                      "runPolicy.suspend: true first, and resume the job with the new number",
                      replica.replicas, policy.scheduling.kueue_queue, accepted->second.desired));
    }
  }

  void CheckStorage() {
    const std::string& path = job_.spec.storage.mount_path;
    if (path.empty() || path[0] != '/' || path.find(':') != std::string::npos || path == "/") {
      Add("spec.storage.mountPath", fmt::format("found \"{}\", expected an absolute path below / without a colon", path));
    } else if (path == "/etc/trainyard" || path.starts_with("/etc/trainyard/")) {
      Add("spec.storage.mountPath", "found a path in /etc/trainyard, where the host lists are mounted; choose another");
    }
  }

  // Paths begin with spec.serve: a running job with any other mistake goes on serving.
  void CheckServe() {
    if (!job_.spec.serve) return;
    if (job_.spec.framework != Framework::kTrainyard) {
      Add("spec.serve",
          fmt::format("serves checkpoints of framework Trainyard only, found framework {}; remove it", Name(job_.spec.framework)));
    } else if (job_.spec.training.empty()) {
      Add("spec.serve", "found no spec.training, whose checkpoints would be served; set it, or remove spec.serve");
    }
    const Storage& storage = job_.spec.storage;
    if (storage.claim_name.empty()) {
      Add("spec.serve", "found no spec.storage.claimName, but served checkpoints outlive their pods; name a PersistentVolumeClaim");
    }
    const json training = json::parse(job_.spec.training.empty() ? "{}" : job_.spec.training, nullptr, false);
    const json& checkpoint = json_read::Get(training, "checkpoint");
    const bool keeps_best = json_read::Find(checkpoint, "keepBest") != nullptr ||
                            json_read::Bool(json_read::Get(json_read::Get(training, "evaluate"), "earlyStopping"), "restoreBest");
    if (job_.spec.serve->when == ServeWhen::kBest && !job_.spec.training.empty() && !keeps_best) {
      Add("spec.serve.when",
          "found best, but the training keeps no best checkpoint; set spec.training.checkpoint.keepBest: {metric: accuracy} or "
          "restoreBest, "
          "or take final");
    }
    const std::string dir = json_read::String(checkpoint, "dir");
    const bool inside =
        dir.empty() || dir.front() != '/' || (dir + "/").starts_with(storage.mount_path + (storage.mount_path.ends_with('/') ? "" : "/"));
    if (!inside || ("/" + dir + "/").find("/../") != std::string::npos) {
      Add("spec.serve", fmt::format("the checkpoints go to {} (spec.training.checkpoint.dir), expected a folder of the claim, below {}",
                                    dir, storage.mount_path));
    }
  }

  const TrainingJob& job_;
  std::vector<FieldError> errors_;
};

}  // namespace

std::vector<FieldError> Validate(const TrainingJob& job) { return Validator(job).Run(); }

absl::StatusOr<TrainingJob> DecodeJob(const DefaultOptions& options, const json& object) {
  absl::StatusOr<TrainingJob> job = TrainingJob::FromJson(object);
  if (!job.ok()) return job;
  ApplyDefaults(options, *job);
  job->problems = Validate(*job);
  return job;
}

std::string Describe(const std::vector<FieldError>& errors) {
  std::string text;
  for (const FieldError& error : errors) {
    if (!text.empty()) text += "; ";
    text += error.path + ": " + error.message;
  }
  return Head(text, kMaxMessage);
}

}  // namespace trainyard::control
