// TrainingJob, as read from the API server and as its status is written. The fields' meaning stands
// in crds/trainingjob.yaml, once.
#pragma once

#include <array>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/api/meta.h"

namespace trainyard::control {

enum class Framework : uint8_t { kTrainyard, kTensorFlow, kPyTorch, kMxNet, kMpi, kJax, kXgBoost, kNone };
enum class Role : uint8_t { kChief, kPs, kWorker, kEvaluator };
// kRecreate: OnFailure where the operator makes a new pod. The pod ends, as the kubelet would
// restart one container alone, and on its node.
enum class RestartPolicy : uint8_t { kAlways, kOnFailure, kNever, kExitCode, kRecreate };
enum class RestartScope : uint8_t { kReplica, kJob };
enum class CleanPodPolicy : uint8_t { kNone, kRunning, kAll };
enum class SuccessPolicy : uint8_t { kChief, kAllWorkers };
enum class StartPolicy : uint8_t { kPsReady, kAny };
enum class LostNodePolicy : uint8_t { kWait, kForceDelete };
enum class ServicesMode : uint8_t { kPerReplica, kHeadless };
enum class HostList : uint8_t { kDense, kSparse };
enum class Gang : uint8_t { kNone, kVolcano, kCoscheduling, kNative };
// The version of scheduling.k8s.io that has PodGroups: of Kubernetes 1.36, and of 1.37 and newer.
enum class NativeVersion : uint8_t { kV1Alpha2, kV1Beta1 };
enum class Placement : uint8_t { kClose, kExclusive };
enum class ExitAction : uint8_t { kRestart, kFail, kIgnore };
enum class FailureAction : uint8_t { kFailJob, kIgnore, kCount };
enum class ServeWhen : uint8_t { kFinal, kBest };
enum class JobPhase : uint8_t { kPending, kRunning, kRestarting, kSuspended, kSucceeded, kFailed, kInvalid };

inline constexpr std::array<Role, 4> kRoles = {Role::kChief, Role::kPs, Role::kWorker, Role::kEvaluator};

// The words of the API: "PyTorch", "ps", "OnFailure" …
std::string_view Name(Framework value);
std::string_view Name(Role value);
std::string_view Name(JobPhase value);
std::optional<Role> RoleFromName(std::string_view name);

// A mistake that the schema let through: "spec.worker.replicas" and what to do about it.
struct FieldError {
  std::string path;
  std::string message;
  friend bool operator==(const FieldError&, const FieldError&) = default;
};

struct ReplicaSpec {
  int replicas = 1;
  RestartPolicy restart_policy = RestartPolicy::kOnFailure;  // where absent ExitCode for framework Trainyard
  // JSON texts, passed through untouched; empty when absent.
  std::string resources;
  std::string pod_template;
  // Of the main container: its own resources, else `resources` (devices.h).
  int gpus = 0;
  bool asks_for_device = false;
};

struct ExitCodeRule {
  int from = 0;
  int to = 0;
  ExitAction action = ExitAction::kFail;
};

// At least one container ended with a code that is, or is not, among the values.
struct ExitCodesPattern {
  std::string container;  // empty: any
  bool in = true;
  std::vector<int> values;
};

struct PodConditionPattern {
  std::string type;
  std::string status;
};

// Has either exit codes or conditions; of the conditions one must hold.
struct PodFailureRule {
  FailureAction action = FailureAction::kCount;
  std::optional<ExitCodesPattern> exit_codes;
  std::vector<PodConditionPattern> conditions;
};

struct Scheduling {
  Gang gang = Gang::kNone;
  NativeVersion native = NativeVersion::kV1Beta1;  // of the cluster, for gang Native
  std::optional<int> min_available;
  std::string queue;
  std::string priority_class;
  std::string topology_key;
  Placement placement = Placement::kClose;
  // Of the labels by which Kueue manages a job (docs/queues.md); empty without them.
  std::string kueue_queue;
  std::string kueue_priority_class;
  // What the label says by now, where the job goes on in the queue of its pods (kept_queue.h).
  std::optional<std::string> later_queue;

  // Whether pods start all together or not at all, so that no pod may wait for another to start.
  bool StartsWhole() const { return gang != Gang::kNone || !kueue_queue.empty(); }

  // Whether the number of a PodGroup may change. Native ones of v1alpha2 keep their first.
  bool GroupFollowsScale() const { return gang != Gang::kNative || native != NativeVersion::kV1Alpha2; }
};

struct RunPolicy {
  CleanPodPolicy clean_pod_policy = CleanPodPolicy::kRunning;
  std::optional<absl::Duration> ttl_after_finished;
  std::optional<absl::Duration> active_deadline;
  int backoff_limit = 6;
  RestartScope restart_scope = RestartScope::kReplica;
  bool avoid_failed_nodes = false;
  LostNodePolicy lost_node_policy = LostNodePolicy::kWait;
  bool suspend = false;
  SuccessPolicy success_policy = SuccessPolicy::kChief;
  StartPolicy start_policy = StartPolicy::kPsReady;
  std::vector<ExitCodeRule> exit_codes;       // without a match 1-127 Fail, 200 Ignore, else Restart
  std::vector<PodFailureRule> failure_rules;  // of podFailurePolicy: before all else; empty without one
  Scheduling scheduling;
};

struct Storage {
  bool given = false;  // spec.storage is present
  std::string claim_name;
  std::string mount_path = "/var/lib/trainyard";
};

struct Network {
  int port = 5000;
  ServicesMode services = ServicesMode::kHeadless;  // framework MPI has another default
  HostList host_list = HostList::kDense;
  std::string cluster_domain;
  std::optional<int> progress_port;  // of other frameworks than Trainyard
  bool tls = false;                  // between replicas; of framework Trainyard alone
  bool key_in_secret = false;        // the job's key is in a Secret, not in its ConfigMap: with tls, or as the operator's flags say
};

// PyTorch: the numbers of workers with which torchrun trains.
struct Elastic {
  int min_workers = 1;
  int max_workers = 1;
};

struct ServeSpec {
  int replicas = 1;
  ServeWhen when = ServeWhen::kFinal;
  std::string resources;  // JSON text; empty when absent
};

struct TrainingJobSpec {
  Framework framework = Framework::kTrainyard;
  std::string image;              // where absent the operator's default trainer image
  bool image_is_default = false;  // it was absent
  // By role; absent roles have no entry here and zero replicas.
  std::map<Role, ReplicaSpec> replicas;
  std::string training;  // JSON text, carried unread; empty when absent
  RunPolicy run_policy;
  Storage storage;
  Network network;
  std::optional<Elastic> elastic;
  std::optional<ServeSpec> serve;
  std::string managed_by = "trainyard.dev/operator";

  int Replicas(Role role) const;
  int AllReplicas() const;  // of all roles together
  const ReplicaSpec* Find(Role role) const;
  // Where progress is asked for (docs/contract.md); absent: nowhere.
  std::optional<int> ProgressPort() const;
};

struct Condition {
  std::string type;
  bool status = false;
  std::string reason;
  std::string message;
  absl::Time last_transition = absl::InfinitePast();
  friend bool operator==(const Condition&, const Condition&) = default;
};

struct ReplicaStatus {
  int desired = 0;
  int active = 0;  // exist and have not finished
  int ready = 0;
  int succeeded = 0;
  int failed = 0;
  int restarts = 0;
  std::string completed;  // indexes that have ended with success, as "0-3,5": they are not recreated when their pods are gone
  friend bool operator==(const ReplicaStatus&, const ReplicaStatus&) = default;
};

// The memory of a replica that has restarted. It makes counting exact across operator restarts: a
// pod's failure is counted once, by its uid, before the pod is deleted.
struct RestartRecord {
  std::string replica;                         // "worker-1"
  std::string pod_uid;                         // the pod that the record last saw
  int pod_restarts = 0;                        // restarts of its containers by the kubelet
  int pod_free_restarts = 0;                   // those of them that spend nothing of backoffLimit
  bool pod_counted = false;                    // its end has been counted; it is still to be deleted and recreated
  int restarts = 0;                            // of earlier pods, recreations included, that spend backoffLimit
  int backoff_step = 0;                        // recreations in a row: the next one waits 0, 1, 2, 4 … s
  absl::Time last_end = absl::InfinitePast();  // when its last pod ended

  // Of backoffLimit.
  int Spent() const { return restarts + pod_restarts - pod_free_restarts; }
  friend bool operator==(const RestartRecord&, const RestartRecord&) = default;
};

struct Progress {
  int64_t step = 0;
  std::optional<int64_t> total_steps;
  std::optional<double> epoch;
  std::optional<double> percent;
  std::optional<double> loss;
  std::map<std::string, double> metrics;
  std::optional<double> batches_per_second;
  std::optional<double> examples_per_second;
  std::optional<int64_t> eta_seconds;
  std::optional<int64_t> last_checkpoint_step;
  std::optional<int64_t> best_checkpoint_step;
  std::string stopped_early;  // why; empty: the training goes on, or went on to its planned end
  absl::Time updated_time = absl::InfinitePast();
  std::vector<std::string> stragglers;  // written to status.stragglers
  // Of a job that does not train: it has neither a speed nor a time left.
  void ForgetPace() {
    batches_per_second.reset();
    examples_per_second.reset();
    eta_seconds.reset();
  }
  friend bool operator==(const Progress&, const Progress&) = default;
};

// The first failure of the job.
struct Failure {
  std::string replica;
  std::string pod;
  std::string container;  // empty: the first one
  std::string node;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string reason;
  std::string message;
  friend bool operator==(const Failure&, const Failure&) = default;
};

// A node on which a replica, such as "worker-1", failed (runPolicy.avoidFailedNodes).
struct FailedNode {
  std::string replica;
  std::string node;
  friend bool operator==(const FailedNode&, const FailedNode&) = default;
};

// What spec.serve has made.
struct Serving {
  int ready_replicas = 0;
  std::optional<int64_t> version;  // that answered last
  std::string url;
  friend bool operator==(const Serving&, const Serving&) = default;
};

struct TrainingJobStatus {
  int64_t observed_generation = 0;
  std::optional<JobPhase> phase;  // absent: never reconciled
  std::string message;            // what the job waits for or why it ended
  std::vector<Condition> conditions;
  std::vector<std::string> foreign_conditions;  // of other controllers: JSON texts, kept as they are
  std::map<Role, ReplicaStatus> replica_statuses;
  int restarts = 0;
  int disruptions = 0;
  int64_t hosts_epoch = 0;
  std::string hosts_hash;   // of the host lists that hosts_epoch numbers
  int64_t group_epoch = 0;  // of the job's pod groups in Kueue, the first one is 0
  std::string image;        // the default trainer image as the job started; its replicas keep it when the operator's changes
  std::optional<absl::Time> start_time;
  std::optional<absl::Time> running_time;  // when all replicas were ready for the first time since start_time
  std::optional<absl::Time> completion_time;
  std::optional<Progress> progress;
  std::optional<Serving> serving;
  std::optional<Failure> failure;
  std::vector<RestartRecord> restart_records;
  std::vector<FailedNode> failed_nodes;  // the oldest first
  std::string selector;                  // of the workers, for the scale subresource

  const Condition* Find(std::string_view type) const;
  bool IsTrue(std::string_view type) const;
  bool Finished() const { return phase == JobPhase::kSucceeded || phase == JobPhase::kFailed; }

  friend bool operator==(const TrainingJobStatus&, const TrainingJobStatus&) = default;
};

struct TrainingJob {
  ObjectMeta meta;
  TrainingJobSpec spec;
  TrainingJobStatus status;
  // Fields that FromJson could not make sense of (types, unknown words, fields that the API server
  // dropped). DecodeJob (validation.h) adds the findings of Validate.
  std::vector<FieldError> problems;
  // Fields that mean nothing to this operator though the API server keeps them, as a newer
  // version's CRD does: they are warned of.
  std::vector<FieldError> unknown;
  // The problems of an edit that a started job does not follow (plan/accepted_spec.h); `problems`
  // is empty then.
  std::vector<FieldError> refused_edit;

  // InvalidArgument only for an object without metadata; everything else ends up in `problems`.
  static absl::StatusOr<TrainingJob> FromJson(const nlohmann::json& object);
};

nlohmann::json StatusToJson(const TrainingJobStatus& status);
TrainingJobStatus StatusFromJson(const nlohmann::json& status);

// The whole body of an UpdateStatus request: identity (with uid and resourceVersion) and status.
nlohmann::json StatusUpdateBody(const ObjectMeta& meta, const TrainingJobStatus& status);

}  // namespace trainyard::control
