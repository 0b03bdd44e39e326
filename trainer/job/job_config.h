// A TrainingJob file (or a training.json), as the trainer and the launcher need it. The file's text
// is hostile input: its size, depth, aliases and numbers are bounded. Every mistake of a file is
// told at once, with line and path.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/config/field_errors.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

enum class RestartPolicy : uint8_t { kAlways, kOnFailure, kNever, kExitCode };

// One line of runPolicy.exitCodes: the first match decides.
struct ExitCodeRule {
  enum class Action : uint8_t { kRestart, kFail, kIgnore };
  int from = 1;
  int to = 255;
  Action action = Action::kFail;
};

struct ReplicaConfig {
  int replicas = 0;
  RestartPolicy restart_policy = RestartPolicy::kExitCode;
};

struct RunPolicy {
  enum class SuccessPolicy : uint8_t { kChief, kAllWorkers };
  enum class StartPolicy : uint8_t { kPsReady, kAny };
  enum class RestartScope : uint8_t { kReplica, kJob };
  int backoff_limit = 6;                // restarts over the whole job
  int64_t active_deadline_seconds = 0;  // 0: none
  SuccessPolicy success_policy = SuccessPolicy::kChief;
  StartPolicy start_policy = StartPolicy::kPsReady;
  RestartScope restart_scope = RestartScope::kReplica;
  std::vector<ExitCodeRule> exit_codes;  // before the default: 1-127 Fail, 128 and above Restart
  bool suspend = false;                  // the job is to be kept, not run
};

// spec.serve: a cluster's Deployment. Only what says how to serve a run by hand is read.
struct ServeConfig {
  bool best = false;  // when: best
};

struct JobConfig {
  std::string name;  // metadata.name
  std::string name_space = "default";
  ReplicaConfig ps;
  ReplicaConfig worker;
  ReplicaConfig chief;      // replicas 0 or 1; with 0, worker 0 is the chief
  ReplicaConfig evaluator;  // replicas 0 or 1
  RunPolicy run_policy;
  std::optional<ServeConfig> serve;
  TrainingConfig training;
  PathLines lines;            // where the fields stand in the file, for errors that are found later
  std::string training_json;  // `spec.training` unread, overrides applied: what goes into training.json for the replicas
};

// Reads the TrainingJob in the YAML or (by the name's end) JSON file `path`. Each override is
// "path=value" with a YAML value, applied before anything is checked: "spec.worker.replicas=4",
// "spec.training.model.layers[2].dense.units=10"; `null` removes a field; "spec." may be left out.
// NotFound, or InvalidArgument with every mistake (field_errors.h).
absl::StatusOr<JobConfig> ReadJobFile(const std::string& path, std::span<const std::string> overrides = {});

// The same on a text; `source` names it in errors and decides by its end between YAML and JSON.
absl::StatusOr<JobConfig> ParseJob(std::string_view text, std::string_view source, std::span<const std::string> overrides = {});

// Reads what one replica trains: `path` is a training.json (the object of `spec.training`) or a
// whole TrainingJob file.
absl::StatusOr<TrainingConfig> ReadTrainingFile(const std::string& path, std::span<const std::string> overrides = {});

// The same on a text.
absl::StatusOr<TrainingConfig> ParseTrainingText(std::string_view text, std::string_view source,
                                                 std::span<const std::string> overrides = {});

}  // namespace trainyard::engine
