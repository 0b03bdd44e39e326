#include "trainer/job/job_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/config/field_reader.h"
#include "trainer/config/job_config_override.h"
#include "trainer/config/job_config_text.h"
#include "trainer/job/check_devices.h"
#include "trainer/job/strategy_roles.h"
#include "trainer/job/training_json.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr size_t kLongestChildName = 63;  // a DNS label, which pods and services are named by

RestartPolicy ReadRestartPolicy(FieldReader& fields) {
  return fields.Choice<RestartPolicy>("restartPolicy",
                                      {{"Always", RestartPolicy::kAlways},
                                       {"OnFailure", RestartPolicy::kOnFailure},
                                       {"Never", RestartPolicy::kNever},
                                       {"ExitCode", RestartPolicy::kExitCode}},
                                      ReplicaConfig().restart_policy);
}

ReplicaConfig ReadReplicas(FieldReader& spec, std::string_view role, int64_t most, FieldErrors& errors) {
  ReplicaConfig config;
  const json* value = spec.Get(role);
  if (value == nullptr) return config;
  FieldReader fields(*value, spec.PathOf(role), errors);
  config.replicas = static_cast<int>(fields.Integer("replicas", {.min = 0, .max = most}, 1));
  config.restart_policy = ReadRestartPolicy(fields);
  fields.Ignore({"resources", "template", "lostNodePolicy"});
  fields.RefuseOthers();
  return config;
}

ExitCodeRule ReadExitCodeRule(const json& value, std::string path, FieldErrors& errors) {
  using Action = ExitCodeRule::Action;
  ExitCodeRule rule;
  FieldReader fields(value, std::move(path), errors);
  rule.from = static_cast<int>(fields.Integer("from", {.min = 1, .max = 255}));
  rule.to = static_cast<int>(fields.Integer("to", {.min = 1, .max = 255}));
  rule.action = fields.Choice<Action>("action", {{"Restart", Action::kRestart}, {"Fail", Action::kFail}, {"Ignore", Action::kIgnore}});
  if (rule.from > rule.to) fields.Error("to", fmt::format("found {}, expected at least `from`, {}", rule.to, rule.from));
  fields.RefuseOthers();
  return rule;
}

RunPolicy ReadRunPolicy(const json& value, std::string path, FieldErrors& errors) {
  RunPolicy policy;
  FieldReader fields(value, std::move(path), errors);
  policy.backoff_limit = static_cast<int>(fields.Integer("backoffLimit", {.min = 0, .max = 100'000}, policy.backoff_limit));
  policy.active_deadline_seconds = fields.Integer("activeDeadlineSeconds", {.min = 1, .max = 315'360'000}, 0);
  policy.success_policy = fields.Choice<RunPolicy::SuccessPolicy>(
      "successPolicy", {{"Chief", RunPolicy::SuccessPolicy::kChief}, {"AllWorkers", RunPolicy::SuccessPolicy::kAllWorkers}},
      policy.success_policy);
  policy.start_policy = fields.Choice<RunPolicy::StartPolicy>(
      "startPolicy", {{"PSReady", RunPolicy::StartPolicy::kPsReady}, {"Any", RunPolicy::StartPolicy::kAny}}, policy.start_policy);
  policy.restart_scope = fields.Choice<RunPolicy::RestartScope>(
      "restartScope", {{"Replica", RunPolicy::RestartScope::kReplica}, {"Job", RunPolicy::RestartScope::kJob}}, policy.restart_scope);
  if (const json* rules = fields.Get("exitCodes")) {
    if (!rules->is_array() || rules->size() > 64) {
      fields.Error("exitCodes", fmt::format("found {}, expected a list of at most 64 objects such as {{from: 1, to: 127, action: Fail}}",
                                            Found(*rules)));
    } else {
      for (size_t i = 0; i < rules->size(); ++i) {
        policy.exit_codes.push_back(ReadExitCodeRule((*rules)[i], fmt::format("{}[{}]", fields.PathOf("exitCodes"), i), errors));
      }
    }
  }
  policy.suspend = fields.Bool("suspend", policy.suspend);
  fields.Ignore({"cleanPodPolicy", "ttlSecondsAfterFinished", "scheduling", "lostNodePolicy", "avoidFailedNodes", "podFailurePolicy"});
  fields.RefuseOthers();
  return policy;
}

ServeConfig ReadServe(const json& value, std::string path, FieldErrors& errors) {
  FieldReader fields(value, std::move(path), errors);
  const ServeConfig serve{.best = fields.Choice<bool>("when", {{"final", false}, {"best", true}}, false)};
  fields.Ignore({"replicas", "resources"});
  fields.RefuseOthers();
  return serve;
}

// Fields of objects that mean something to Kubernetes only: their names are checked, their values
// are the operator's business.
void CheckNames(FieldReader& spec, std::string_view name, std::initializer_list<std::string_view> known, FieldErrors& errors) {
  const json* value = spec.Get(name);
  if (value == nullptr) return;
  FieldReader fields(*value, spec.PathOf(name), errors);
  fields.Ignore(known);
  fields.RefuseOthers();
}

bool IsDnsLabel(std::string_view name) {
  const auto inner = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' && name.back() != '-' && std::ranges::all_of(name, inner);
}

void ReadMetadata(FieldReader& root, JobConfig& job, FieldErrors& errors) {
  const json* value = root.Require("metadata", "an object with the job's name");
  if (value == nullptr) return;
  FieldReader fields(*value, root.PathOf("metadata"), errors);
  job.name = fields.Text("name");
  if (fields.Get("name") != nullptr && !IsDnsLabel(job.name)) {
    fields.Error("name",
                 fmt::format("found {}, expected lower-case letters, digits and '-', starting with a letter", Found(json(job.name))));
  }
  job.name_space = fields.Text("namespace", job.name_space);
  fields.Ignore({"labels", "annotations", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "finalizers",
                 "ownerReferences", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"});
  fields.RefuseOthers();
}

// The replicas that the job's strategy has no place for, or lacks.
void CheckRoles(const JobConfig& job, FieldErrors& errors) {
  const StrategyRoles roles = RolesOf(job.training.strategy.kind);
  const int trainers = job.worker.replicas + job.chief.replicas;
  if (roles.servers() && job.ps.replicas == 0) {
    errors.Add("spec.ps.replicas", fmt::format("found 0, expected at least 1, because training.strategy is {}", roles.name));
  }
  if (!roles.servers() && job.ps.replicas > 0) {
    errors.Add("spec.ps.replicas", fmt::format("found {}, expected 0, because {}", job.ps.replicas, roles.no_servers_why));
  }
  if (!roles.chief && job.chief.replicas > 0) {
    errors.Add("spec.chief.replicas", fmt::format("found {}, expected 0, because with training.strategy {} worker 0 is the chief",
                                                  job.chief.replicas, roles.name));
  }
  if (!roles.many_trainers && trainers > 1) {
    errors.Add(
        "spec.worker.replicas",
        fmt::format("found {} workers and chiefs, expected 1, because training.strategy is {}; set strategy: {{allReduce: {{}}}}, or "
                    "strategy: {{parameterServer: {{mode: sync}}}} with ps.replicas",
                    trainers, roles.name));
  }
}

// Mistakes that no field alone shows.
void CheckTogether(const JobConfig& job, bool names_workers, FieldErrors& errors) {
  const auto check_name = [&](std::string_view role, const ReplicaConfig& replicas) {
    if (replicas.replicas == 0) return;
    const std::string longest = fmt::format("{}-{}-{}", job.name, role, replicas.replicas - 1);
    if (longest.size() <= kLongestChildName) return;
    errors.Add("metadata.name", fmt::format("\"{}\" has {} characters, at most {} are allowed; choose a shorter name", longest,
                                            longest.size(), kLongestChildName));
  };
  check_name("ps", job.ps);
  check_name("worker", job.worker);
  check_name("evaluator", job.evaluator);

  if (job.evaluator.replicas > 0 && !job.training.data.eval) {
    errors.Add("spec.training.data.eval", "missing, expected a split to evaluate, because the job has an evaluator");
  }
  const int trainers = job.worker.replicas + job.chief.replicas;
  if (const std::string wrong = WrongDevices(job.training, trainers); !wrong.empty()) errors.Add("spec.training.devices", wrong);
  if (trainers == 0 && !names_workers) {
    errors.Add("spec.worker", "missing, expected at least one worker or a chief; add worker: {replicas: 1}");
  } else if (trainers == 0) {
    errors.Add("spec.worker.replicas", "found 0, expected at least one worker or a chief");
  }
  CheckRoles(job, errors);
}

void ReadSpec(const json& value, JobConfig& job, FieldErrors& errors) {
  FieldReader fields(value, "spec", errors);
  const size_t errors_before = errors.size();
  if (const json* framework = fields.Get("framework"); framework != nullptr && *framework != "Trainyard") {
    fields.Error("framework", fmt::format("found {}, expected Trainyard: the trainer runs no other framework's jobs", Found(*framework)));
  }
  job.ps = ReadReplicas(fields, "ps", 512, errors);
  job.worker = ReadReplicas(fields, "worker", 4096, errors);
  job.chief = ReadReplicas(fields, "chief", 1, errors);
  job.evaluator = ReadReplicas(fields, "evaluator", 1, errors);
  if (const json* policy = fields.Get("runPolicy")) job.run_policy = ReadRunPolicy(*policy, fields.PathOf("runPolicy"), errors);
  if (const json* training = fields.Require("training", "an object with model, data, batchSize …")) {
    job.training = ParseTraining(*training, fields.PathOf("training"), errors);
    job.training.evaluator = job.evaluator.replicas > 0;
    job.training_json = training->dump(2, ' ', false, json::error_handler_t::replace);
  }
  CheckNames(fields, "storage", {"claimName", "mountPath"}, errors);
  CheckNames(fields, "network", {"port", "services", "hostList", "clusterDomain", "tls", "progressPort"}, errors);
  CheckNames(fields, "elastic", {"minWorkers", "maxWorkers"}, errors);
  if (const json* serve = fields.Get("serve")) job.serve = ReadServe(*serve, fields.PathOf("serve"), errors);
  fields.Ignore({"image", "managedBy"});
  fields.RefuseOthers();
  if (errors.size() == errors_before) CheckTogether(job, fields.Get("worker") != nullptr, errors);
}

void ReadRoot(const json& value, JobConfig& job, FieldErrors& errors) {
  FieldReader fields(value, "", errors);
  if (!value.is_object()) return;
  fields.Choice<int>("apiVersion", {{"trainyard.dev/v1alpha1", 0}});
  fields.Choice<int>("kind", {{"TrainingJob", 0}});
  ReadMetadata(fields, job, errors);
  if (const json* spec = fields.Require("spec", "the job's description")) ReadSpec(*spec, job, errors);
  fields.Ignore({"status"});
  fields.RefuseOthers();
}

absl::StatusOr<JobText> ReadAndOverride(std::string_view text, std::string_view source, std::span<const std::string> overrides) {
  TY_ASSIGN_OR_RETURN(JobText job, ReadJobText(text, source));
  TY_RETURN_IF_ERROR(ApplyOverrides(overrides, job.value));
  return job;
}

absl::StatusOr<JobConfig> JobOf(JobText text, std::string_view source) {
  JobConfig job;
  FieldErrors errors;
  ReadRoot(text.value, job, errors);
  TY_RETURN_IF_ERROR(errors.ToStatus(source, text.lines));
  job.lines = std::move(text.lines);
  return job;
}

}  // namespace

absl::StatusOr<JobConfig> ParseJob(std::string_view text, std::string_view source, std::span<const std::string> overrides) {
  TY_ASSIGN_OR_RETURN(JobText job, ReadAndOverride(text, source, overrides));
  return JobOf(std::move(job), source);
}

absl::StatusOr<JobConfig> ReadJobFile(const std::string& path, std::span<const std::string> overrides) {
  TY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxJobBytes));
  return ParseJob(text, path, overrides);
}

absl::StatusOr<TrainingConfig> ParseTrainingText(std::string_view text, std::string_view source, std::span<const std::string> overrides) {
  TY_ASSIGN_OR_RETURN(JobText job, ReadJobText(text, source));
  if (job.value.is_null()) return absl::InvalidArgumentError(fmt::format("{}: found nothing, expected a TrainingJob", source));
  if (job.value.is_object() && (job.value.contains("kind") || job.value.contains("apiVersion"))) {
    TY_ASSIGN_OR_RETURN(JobConfig whole, ParseJob(text, source, overrides));
    return std::move(whole.training);
  }
  // Wrapped as in a TrainingJob, so that errors and overrides have the same paths for both kinds of
  // file.
  json wrapped = {{"spec", {{"training", std::move(job.value)}}}};
  TY_RETURN_IF_ERROR(ApplyOverrides(overrides, wrapped));
  PathLines lines;
  for (const auto& [path, line] : job.lines) lines.emplace("spec.training." + path, line);
  FieldErrors errors;
  // An override may have added other fields.
  FieldReader root(wrapped, "", errors);
  const json nothing = json::object();
  const json* const spec_value = root.Require("spec", "the job's description");
  FieldReader spec(spec_value != nullptr ? *spec_value : nothing, "spec", errors);
  const json* const training_value = spec_value != nullptr ? spec.Require("training", "what is trained") : nullptr;
  TrainingConfig training = training_value != nullptr ? ParseTraining(*training_value, "spec.training", errors) : TrainingConfig();
  spec.RefuseOthers();
  root.RefuseOthers();
  TY_RETURN_IF_ERROR(errors.ToStatus(source, lines));
  return training;
}

absl::StatusOr<TrainingConfig> ReadTrainingFile(const std::string& path, std::span<const std::string> overrides) {
  TY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxJobBytes));
  return ParseTrainingText(text, path, overrides);
}

}  // namespace trainyard::engine
