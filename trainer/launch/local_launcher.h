// Runs all replicas of a TrainingJob file as local processes, from start to report. The only file
// of launch/ that waits.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/job/job_config.h"
#include "trainer/launch/supervisor.h"

namespace trainyard::engine {

enum class ProgressMode { kBar, kPlain, kNone };  // kBar: for a terminal that moves its cursor

struct LaunchOptions {
  std::string program;                 // the trainer's own executable
  std::string called_as;               // what a user types to start it
  std::string file;                    // the job file, for messages
  std::vector<std::string> overrides;  // --set, applied to the job already: for messages
  std::string output;                  // the run's folder; an existing one is resumed
  ProgressMode progress = ProgressMode::kPlain;
  bool open = false;  // serves the run's page while it trains, and shows it in a browser
};

// Blocks SIGINT, SIGTERM and SIGHUP in this thread and handles them itself: the first stops all
// replicas after a checkpoint, a second one at once. Where the job has failed already its replicas
// are at that checkpoint, and the first signal leaves them to it. Returns the job's exit code
// (Supervisor::exit_code); report.json, logs and the rest are in options.output. A bad status means
// that the job could not be run at all.
absl::StatusOr<int> LaunchLocally(const JobConfig& job, const LaunchOptions& options);

}  // namespace trainyard::engine
